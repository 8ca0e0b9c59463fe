"""What every delivery goes through: claim, opening, acceptance. For the revision that makes them.

Functions, because their plans are kept for as long as a session lives, whatever pooler stands before
the server; analysed and planned anew, each of these statements costs a small group more than its rows do.
"""

# A claim does not wait for the disk: it is nobody's history, one that a crash forgets is claimed anew,
# and the opening that relies on it is committed after it. The pick is materialised and joined through an
# array: other shapes claim more than the limit under some plans.
_CLAIM = """
CREATE FUNCTION sendledger.claim_deliveries(
    in_channel text, in_lane smallint, in_claim_token uuid, in_claim_max integer, in_lease interval,
    in_wake_from timestamptz, in_intent_from bigint, in_probing boolean, in_now timestamptz
) RETURNS TABLE (
    intent_id bigint, batch_id bigint, wake_at timestamptz, status text, seq integer,
    decision_seq integer, attempt_count smallint, claims smallint, claimed_at timestamptz,
    intent_key bytea, eligible_at timestamptz, not_after timestamptz, destination_fingerprint bytea,
    domain_key bytea, content_id bigint, purpose text, lane smallint, scope_keys text [],
    destination text, variables json, attachments json, attachment_places json, paused_scope text,
    closed_until timestamptz, suppressions json
) LANGUAGE plpgsql AS $body$
#variable_conflict use_column
BEGIN
PERFORM set_config('synchronous_commit', 'off', true);
RETURN QUERY
WITH picked AS MATERIALIZED (
    SELECT d.intent_id
    FROM sendledger.delivery AS d
    WHERE d.channel = in_channel
        AND d.lane = in_lane
        AND d.claim_token IS NULL
        AND d.awaits IN ('dispatch', 'retry')
        AND d.wake_at <= coalesce(in_now, now())
        AND (d.wake_at, d.intent_id)
        >= (coalesce(in_wake_from, '-infinity'), coalesce(in_intent_from, 0))
        AND NOT EXISTS (
            SELECT FROM sendledger.pause AS p
            WHERE p.ended_at IS NULL AND p.scope_key IN ('all', 'channel:' || in_channel)
        )
        AND (in_probing OR NOT EXISTS (
            SELECT FROM sendledger.back_off AS f WHERE f.scope_key = 'channel:' || in_channel
        ))
    ORDER BY d.wake_at, d.intent_id
    LIMIT in_claim_max
    FOR UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE sendledger.delivery AS d
    SET claim_token = in_claim_token,
        lease_until = coalesce(in_now, now()) + in_lease,
        claims = d.claims + 1
    WHERE d.intent_id = ANY (ARRAY(SELECT p.intent_id FROM picked AS p))
    RETURNING d.intent_id, d.batch_id, d.wake_at, d.status, d.seq, d.decision_seq,
        d.attempt_count, d.claims
)
SELECT
    c.intent_id, c.batch_id, c.wake_at, c.status, c.seq, c.decision_seq, c.attempt_count, c.claims,
    coalesce(in_now, now()),
    i.intent_key, i.eligible_at, i.not_after, i.destination_fingerprint,
    i.domain_key,
    b.content_id, b.purpose, b.lane, b.scope_keys,
    s.destination, s.variables, i.attachments, s.attachments,
    (
        SELECT min(p.scope_key) FROM sendledger.pause AS p
        WHERE p.ended_at IS NULL AND p.scope_key = ANY (b.scope_keys)
    ),
    (
        SELECT max(f.probe_at) FROM sendledger.back_off AS f
        WHERE f.scope_key = ANY (b.scope_keys) AND f.scope_key <> 'channel:' || in_channel
    ),
    (
        SELECT json_agg(json_build_object(
            'scope_key', x.scope_key, 'rule', x.rule, 'since', x.since) ORDER BY x.since)
        FROM sendledger.suppression AS x
        WHERE x.destination_fingerprint = i.destination_fingerprint
            AND x.scope_key = ANY (b.scope_keys)
            AND x.lifted_at IS NULL
            AND coalesce(x.expires_at, 'infinity') > coalesce(in_now, now())
    )
FROM claimed AS c
CROSS JOIN LATERAL (
    SELECT i.* FROM sendledger.intent AS i WHERE i.intent_id = c.intent_id OFFSET 0
) AS i
CROSS JOIN LATERAL (
    SELECT b.* FROM sendledger.batch AS b WHERE b.batch_id = c.batch_id OFFSET 0
) AS b
LEFT JOIN LATERAL (
    SELECT s.* FROM sendledger.recipient_secret AS s WHERE s.intent_id = c.intent_id OFFSET 0
) AS s ON true
ORDER BY c.wake_at, c.intent_id;
END
$body$;
"""

# The shared lock first, in a statement of its own: a pause takes it exclusively, so that once pause has
# returned no opening that did not see it can commit. The guards use clock_timestamp() because the
# statement may have waited for a row lock.
_OPEN = """
CREATE FUNCTION sendledger.open_attempts(
    in_dispatch_lock bigint, in_intent_ids bigint [], in_seqs integer [], in_decision_seqs integer [],
    in_claim_tokens uuid [], in_go_until timestamptz [], in_seals bytea [], in_units smallint [],
    in_handoff_max interval, in_unknown_wait interval, in_evidence_wait interval, in_window interval,
    in_margin interval, in_token_key_id smallint, in_policy_revision text
) RETURNS SETOF bigint LANGUAGE plpgsql AS $body$
#variable_conflict use_column
BEGIN
PERFORM pg_advisory_xact_lock_shared(in_dispatch_lock);
RETURN QUERY
WITH wanted AS MATERIALIZED (
    SELECT w.*, clock_timestamp() AS opened_at
    FROM unnest(
        in_intent_ids, in_seqs, in_decision_seqs, in_claim_tokens, in_go_until, in_seals, in_units
    ) AS w (intent_id, seq, decision_seq, claim_token, go_until, seal, units)
),
opened AS (
    UPDATE sendledger.delivery AS d
    SET status = 'submitting',
        awaits = 'result',
        attempt_count = d.attempt_count + 1,
        spent = d.spent + 1,
        claims = 0,
        seq = d.seq + 1,
        because = d.seq + 1,
        decision_seq = NULL,
        due_at = w.opened_at + in_handoff_max,
        wake_at = NULL
    FROM wanted AS w
    CROSS JOIN LATERAL (
        SELECT i.* FROM sendledger.intent AS i WHERE i.intent_id = w.intent_id OFFSET 0
    ) AS i
    CROSS JOIN LATERAL (
        SELECT b.* FROM sendledger.batch AS b WHERE b.batch_id = i.batch_id OFFSET 0
    ) AS b
    WHERE d.intent_id = w.intent_id
        AND d.intent_id = ANY (in_intent_ids)
        AND d.seq = w.seq
        AND CASE d.awaits WHEN 'dispatch' THEN true WHEN 'retry' THEN true ELSE false END
        AND w.claim_token IS NOT DISTINCT FROM d.claim_token
        AND d.lease_until > clock_timestamp() + in_margin
        AND clock_timestamp() < least(w.go_until, i.not_after)
        AND NOT b.scope_keys && ARRAY(
            SELECT p.scope_key FROM sendledger.pause AS p WHERE p.ended_at IS NULL
        )
        AND NOT EXISTS (
            SELECT FROM sendledger.suppression AS x
            WHERE x.destination_fingerprint = i.destination_fingerprint
                AND x.scope_key = ANY (b.scope_keys)
                AND x.lifted_at IS NULL
                AND coalesce(x.expires_at, 'infinity') > clock_timestamp()
            OFFSET 0
        )
    RETURNING d.intent_id, d.attempt_count, d.seq, w.decision_seq, w.claim_token, w.opened_at,
        w.seal, w.units
)
INSERT INTO sendledger.attempt (
    intent_id, number, seq, decision_seq, claim_token, token_key_id, policy_revision, seal, units,
    opened_at, result_due_at, unknown_due_at, evidence_due_at, window_ends_at
)
SELECT
    o.intent_id, o.attempt_count, o.seq, o.decision_seq, o.claim_token, in_token_key_id,
    in_policy_revision, o.seal, o.units, o.opened_at, o.opened_at + in_handoff_max,
    o.opened_at + in_unknown_wait, o.opened_at + in_evidence_wait, o.opened_at + in_window
FROM opened AS o
RETURNING intent_id;
END
$body$;
"""

_ACCEPT = """
CREATE FUNCTION sendledger.record_accepted(
    in_intent_ids bigint [], in_numbers smallint [], in_seqs integer [], in_rules text [],
    in_stages text [], in_reply_codes integer [], in_enhanced_codes text [],
    in_provider_references text [], in_literals bytea [], in_seals bytea [],
    in_policy_revision text, in_asked text []
) RETURNS SETOF bigint LANGUAGE plpgsql AS $body$
#variable_conflict use_column
BEGIN
RETURN QUERY
WITH incoming AS MATERIALIZED (
    SELECT w.*
    FROM unnest(
        in_intent_ids, in_numbers, in_seqs, in_rules, in_stages, in_reply_codes, in_enhanced_codes,
        in_provider_references, in_literals, in_seals
    ) AS w (
        intent_id, number, seq, rule, stage, reply_code, enhanced_code, provider_reference, literal, seal
    )
),
moved AS (
    UPDATE sendledger.delivery AS d
    SET status = 'submitted',
        awaits = 'evidence',
        due_at = a.evidence_due_at,
        wake_at = CASE
            WHEN d.channel = ANY (in_asked) THEN a.evidence_due_at ELSE a.window_ends_at
        END,
        seq = w.seq,
        because = w.seq,
        claim_token = NULL,
        lease_until = NULL
    FROM incoming AS w
    CROSS JOIN LATERAL (
        SELECT a.* FROM sendledger.attempt AS a
        WHERE a.intent_id = w.intent_id AND a.number = w.number
        OFFSET 0
    ) AS a
    WHERE d.intent_id = w.intent_id
        AND d.intent_id = ANY (in_intent_ids)
        AND d.seq = w.seq - 1
        AND CASE d.status WHEN 'submitting' THEN true ELSE false END
    RETURNING w.*
),
noted AS (
    INSERT INTO sendledger.observation (
        intent_id, seq, attempt, source, outcome, rule, identity, stage, reply_code, enhanced_code,
        provider_reference, policy_revision, seal
    )
    SELECT
        m.intent_id, m.seq, m.number, 'channel', 'accepted', m.rule, 'result/' || m.number, m.stage,
        m.reply_code, m.enhanced_code, m.provider_reference, in_policy_revision, m.seal
    FROM moved AS m
),
kept AS (
    INSERT INTO sendledger.evidence (intent_id, seq, literal)
    SELECT m.intent_id, m.seq, m.literal
    FROM moved AS m
    WHERE octet_length(m.literal) > 0
)
SELECT m.intent_id FROM moved AS m;
END
$body$;
"""

# A plan that is kept was perhaps made for an empty table. It is left one shape, in which each row is found
# by its key, whatever the statistics said then: by these settings, by OFFSET 0 (which keeps a look-up of its
# own from becoming one side of a join), and by comparisons written so that no index but the key's fits.
_ONE_SHAPE = "".join(
    f"""
ALTER FUNCTION sendledger.{function}
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off;
"""
    for function in ("claim_deliveries", "open_attempts", "record_accepted")
)

DISPATCHING = _CLAIM + _OPEN + _ACCEPT + _ONE_SHAPE
