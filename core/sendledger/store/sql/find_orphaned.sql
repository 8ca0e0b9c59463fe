-- Lists rows held under a scope that is not paused any more: met while the pause was being ended.
-- Reads the rows awaiting release: index delivery_due.
SELECT d.intent_id, d.attempt_count
FROM sendledger.delivery AS d
INNER JOIN sendledger.observation AS o ON o.intent_id = d.intent_id AND o.seq = d.because
WHERE d.channel = %(channel)s
    AND d.awaits = 'release'
    AND o.cause LIKE ANY (ARRAY['all', 'channel:%%', 'sender:%%', 'batch:%%', 'purpose:%%'])
    AND NOT EXISTS (
        SELECT FROM sendledger.pause AS p WHERE p.ended_at IS NULL AND p.scope_key = o.cause
    )
ORDER BY d.intent_id
LIMIT %(rows_max)s
