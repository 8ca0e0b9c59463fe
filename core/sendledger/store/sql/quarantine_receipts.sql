-- Keeps receipts that cannot be tied to an attempt, each with the reason. By primary key of the inbox.
INSERT INTO sendledger.quarantine (
    received_at, intent_id, attempt, channel, source, identity, reason, evidence, body
)
SELECT
    b.received_at, b.intent_id, b.attempt, b.channel, b.source, b.identity, w.reason, b.evidence, b.body
FROM unnest(%(inbox_ids)s::bigint [], %(reasons)s::text []) AS w (inbox_id, reason)
INNER JOIN sendledger.inbox AS b ON b.inbox_id = w.inbox_id
ORDER BY b.inbox_id
