-- Lists rows held under one cause. Scans the rows awaiting release: index delivery_due.
SELECT d.intent_id, d.attempt_count
FROM sendledger.delivery AS d
INNER JOIN sendledger.observation AS o ON o.intent_id = d.intent_id AND o.seq = d.because
WHERE d.channel = %(channel)s
    AND d.awaits = 'release'
    AND o.cause = %(cause)s
ORDER BY d.intent_id
LIMIT %(rows_max)s
