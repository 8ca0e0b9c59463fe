-- Lists the oldest receipts of these channels that are not folded yet. Locks nothing. By primary key.
SELECT
    b.inbox_id, b.received_at, b.occurred_at, b.intent_id, b.attempt, b.channel, b.source, b.identity,
    b.evidence, b.body
FROM sendledger.inbox AS b
WHERE b.channel = ANY (%(channels)s::text [])
ORDER BY b.inbox_id
LIMIT %(rows_max)s
