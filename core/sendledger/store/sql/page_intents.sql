-- Pages through all intents in key order with the stored projection beside each, for verification.
SELECT
    i.intent_id, i.intent_key, i.eligible_at, i.provenance, b.channel, b.lane, i.batch_id,
    d.intent_id IS NOT NULL AS has_delivery,
    d.status, d.awaits, d.due_at, d.attempt_count, d.spent, d.contradicted, d.because,
    d.decision_seq, d.seq,
    now() AS read_at
FROM sendledger.intent AS i
INNER JOIN sendledger.batch AS b ON b.batch_id = i.batch_id
LEFT JOIN sendledger.delivery AS d ON d.intent_id = i.intent_id
WHERE i.intent_id > %(after)s
ORDER BY i.intent_id
LIMIT %(rows_max)s
