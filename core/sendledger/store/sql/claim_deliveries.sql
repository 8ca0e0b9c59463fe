-- Claims at most claim_max due rows of one channel and lane, oldest first, and returns what authorising
-- and writing them needs. Locks the picked rows, skipping locked ones. Needs index delivery_claim.
-- The pick is materialised and joined through an array: other shapes claim more than the limit or scan
-- the table under some plans.
-- Does not wait for the disk: a claim is nobody's history, one that a crash forgets is claimed anew, and
-- the opening that relies on it is committed after it.
WITH picked AS MATERIALIZED (
    SELECT d.intent_id
    FROM sendledger.delivery AS d
    WHERE d.channel = %(channel)s
        AND d.lane = %(lane)s
        AND d.claim_token IS NULL
        AND d.awaits IN ('dispatch', 'retry')
        AND d.wake_at <= coalesce(%(now)s::timestamptz, now())
        AND (d.wake_at, d.intent_id)
        >= (coalesce(%(wake_from)s::timestamptz, '-infinity'), coalesce(%(intent_from)s::bigint, 0))
        AND NOT EXISTS (
            SELECT FROM sendledger.pause AS p
            WHERE p.ended_at IS NULL AND p.scope_key IN ('all', 'channel:' || %(channel)s)
        )
        AND (%(probing)s::boolean OR NOT EXISTS (
            SELECT FROM sendledger.back_off AS f WHERE f.scope_key = 'channel:' || %(channel)s
        ))
        AND (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL
    ORDER BY d.wake_at, d.intent_id
    LIMIT %(claim_max)s
    FOR UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE sendledger.delivery AS d
    SET claim_token = %(claim_token)s,
        lease_until = coalesce(%(now)s::timestamptz, now()) + %(lease)s,
        claims = d.claims + 1
    WHERE d.intent_id = ANY (ARRAY(SELECT p.intent_id FROM picked AS p))
    RETURNING d.intent_id, d.batch_id, d.wake_at, d.status, d.seq, d.decision_seq,
        d.attempt_count, d.claims
)
SELECT
    c.intent_id, c.batch_id, c.wake_at, c.status, c.seq, c.decision_seq, c.attempt_count, c.claims,
    coalesce(%(now)s::timestamptz, now()) AS claimed_at,
    i.intent_key, i.eligible_at, i.not_after, i.destination_fingerprint,
    i.domain_key,
    b.content_id, b.purpose, b.lane, b.scope_keys,
    s.destination, s.variables, i.attachments, s.attachments AS attachment_places,
    (
        SELECT min(p.scope_key) FROM sendledger.pause AS p
        WHERE p.ended_at IS NULL AND p.scope_key = ANY (b.scope_keys)
    ) AS paused_scope,
    (
        SELECT max(f.probe_at) FROM sendledger.back_off AS f
        WHERE f.scope_key = ANY (b.scope_keys) AND f.scope_key <> 'channel:' || %(channel)s
    ) AS closed_until,
    (
        SELECT json_agg(json_build_object(
            'scope_key', x.scope_key, 'rule', x.rule, 'since', x.since) ORDER BY x.since)
        FROM sendledger.suppression AS x
        WHERE x.destination_fingerprint = i.destination_fingerprint
            AND x.scope_key = ANY (b.scope_keys)
            AND x.lifted_at IS NULL
            AND coalesce(x.expires_at, 'infinity') > coalesce(%(now)s::timestamptz, now())
    ) AS suppressions
FROM claimed AS c
INNER JOIN sendledger.intent AS i ON i.intent_id = c.intent_id
INNER JOIN sendledger.batch AS b ON b.batch_id = c.batch_id
LEFT JOIN sendledger.recipient_secret AS s ON s.intent_id = c.intent_id
ORDER BY c.wake_at, c.intent_id
