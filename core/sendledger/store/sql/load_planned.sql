-- Returns what was planned under these intent keys, to compare a repeated plan with it. Fresh is what
-- this very run planned: in this transaction, after the last intent there was at its start.
SELECT
    i.intent_key, i.destination_fingerprint, i.content_digest, i.planned_at,
    i.planned_at = now() AND i.intent_id > %(last_intent_id)s AS fresh, i.eligible_at, i.not_after,
    s.variables, i.attachments, s.attachments AS attachment_places
FROM sendledger.intent AS i
LEFT JOIN sendledger.recipient_secret AS s ON s.intent_id = i.intent_id
WHERE i.intent_key = ANY (%(intent_keys)s::bytea [])
