-- Finds intents whose key begins with a prefix (a range over the unique index); two are enough to know
-- that a prefix is not unique.
SELECT
    i.intent_id, i.intent_key, i.eligible_at, i.not_after, i.planned_at, i.provenance, i.correction,
    i.content_digest, i.attachments,
    b.report, b.channel, b.content_revision, b.purpose, b.authorization_id, b.authorized_by,
    b.authorized_at, c.template_revision,
    d.status, d.awaits, d.due_at, d.attempt_count, d.spent, d.contradicted, d.because,
    d.decision_seq, d.seq, d.wake_at
FROM sendledger.intent AS i
INNER JOIN sendledger.batch AS b ON b.batch_id = i.batch_id
INNER JOIN sendledger.content AS c ON c.content_id = b.content_id
INNER JOIN sendledger.delivery AS d ON d.intent_id = i.intent_id
WHERE i.intent_key >= %(key_from)s AND i.intent_key <= %(key_to)s
ORDER BY i.intent_key
LIMIT 2
