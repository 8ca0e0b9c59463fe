-- Lists rows of one channel whose wait for evidence ended or whose next look-up is due.
-- Locks nothing: recording re-reads each row. Needs index delivery_wake.
SELECT d.intent_id, d.attempt_count
FROM sendledger.delivery AS d
WHERE d.channel = %(channel)s
    AND d.awaits = 'evidence'
    AND d.wake_at <= coalesce(%(now)s::timestamptz, now())
ORDER BY d.wake_at
LIMIT %(rows_max)s
