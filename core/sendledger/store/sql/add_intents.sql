-- Adds intents, their side rows and their deliveries; one that has the same key already is left alone
-- and not returned.
WITH incoming AS MATERIALIZED (
    SELECT w.*
    FROM unnest(
        %(intent_key)s::bytea [], %(recipient_fingerprint)s::bytea [],
        %(destination_fingerprint)s::bytea [], %(content_digest)s::bytea [], %(recipient_id)s::text [],
        %(destination)s::text [], %(variables)s::text [], %(domain_key)s::bytea [],
        %(attachments)s::text [], %(attachment_places)s::text []
    ) AS w (
        intent_key, recipient_fingerprint, destination_fingerprint, content_digest, recipient_id,
        destination, variables, domain_key, attachments, attachment_places
    )
),
added AS (
    INSERT INTO sendledger.intent (
        batch_id, intent_key, recipient_fingerprint, destination_fingerprint, content_digest,
        domain_key, attachments, eligible_at, not_after
    )
    SELECT
        %(batch_id)s, w.intent_key, w.recipient_fingerprint, w.destination_fingerprint,
        w.content_digest, w.domain_key, nullif(w.attachments, '')::json,
        coalesce(%(eligible_at)s::timestamptz, now()), %(not_after)s
    FROM incoming AS w
    ON CONFLICT (intent_key) DO NOTHING
    RETURNING intent_id, intent_key, eligible_at
),
secrets AS (
    INSERT INTO sendledger.recipient_secret (
        intent_id, recipient_id, destination, variables, attachments
    )
    SELECT
        a.intent_id, w.recipient_id, w.destination, w.variables::json,
        nullif(w.attachment_places, '')::json
    FROM added AS a
    INNER JOIN incoming AS w ON w.intent_key = a.intent_key
),
queued AS (
    INSERT INTO sendledger.delivery (
        intent_id, batch_id, channel, lane, status, awaits, due_at, wake_at
    )
    SELECT a.intent_id, %(batch_id)s, %(channel)s, %(lane)s, 'planned', 'dispatch', a.eligible_at,
        a.eligible_at
    FROM added AS a
)
SELECT a.intent_key FROM added AS a
