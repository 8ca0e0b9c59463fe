-- Lists rows of one channel whose wait for evidence ended. A receipt that waits in the inbox is evidence that
-- came in time: its row is left until it is folded.
-- Locks nothing: recording re-reads each row. Needs index delivery_wake.
SELECT d.intent_id, d.attempt_count
FROM sendledger.delivery AS d
WHERE d.channel = %(channel)s
    AND d.awaits = 'evidence'
    AND d.wake_at <= coalesce(%(now)s::timestamptz, now())
    AND NOT EXISTS (SELECT FROM sendledger.inbox AS b WHERE b.intent_id = d.intent_id)
ORDER BY d.wake_at
LIMIT %(rows_max)s
