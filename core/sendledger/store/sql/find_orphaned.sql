-- Lists rows whose last hold was for a scope that is not paused any more: met while the pause was being
-- ended, or brought back by evidence after it. Reads the rows put on hold after since and by until, or all:
-- index delivery_due.
SELECT d.intent_id, d.attempt_count
FROM sendledger.delivery AS d
CROSS JOIN LATERAL (
    SELECT o.cause FROM sendledger.observation AS o
    WHERE o.intent_id = d.intent_id AND o.ruling = 'hold'
    ORDER BY o.seq DESC
    LIMIT 1
) AS h
WHERE d.channel = %(channel)s
    AND d.awaits = 'release'
    AND d.due_at > coalesce(%(since)s::timestamptz, '-infinity')
    AND d.due_at <= coalesce(%(until)s::timestamptz, 'infinity')
    AND h.cause LIKE ANY (ARRAY['all', 'channel:%%', 'sender:%%', 'batch:%%', 'purpose:%%'])
    AND NOT EXISTS (
        SELECT FROM sendledger.pause AS p WHERE p.ended_at IS NULL AND p.scope_key = h.cause
    )
ORDER BY d.intent_id
LIMIT %(rows_max)s
