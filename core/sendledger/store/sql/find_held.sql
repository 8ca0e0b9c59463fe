-- Lists rows held under one cause: that of their last hold, whatever came in since.
-- Scans the rows awaiting release: index delivery_due.
SELECT d.intent_id, d.attempt_count
FROM sendledger.delivery AS d
WHERE d.channel = %(channel)s
    AND d.awaits = 'release'
    AND %(cause)s = (
        SELECT o.cause FROM sendledger.observation AS o
        WHERE o.intent_id = d.intent_id AND o.ruling = 'hold'
        ORDER BY o.seq DESC
        LIMIT 1
    )
ORDER BY d.intent_id
LIMIT %(rows_max)s
