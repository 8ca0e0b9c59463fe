-- Lists open operator tasks, oldest first; a batch is named as people name it.
SELECT
    t.task_id, t.kind, t.cause,
    coalesce('batch:' || b.report || '/' || b.content_revision || '/' || b.channel, t.scope_key)
        AS scope_key,
    t.opened_at, i.intent_key
FROM sendledger.task AS t
LEFT JOIN sendledger.batch AS b ON 'batch:' || b.batch_id::text = t.scope_key
LEFT JOIN sendledger.intent AS i ON i.intent_id = t.intent_id
WHERE t.closed_at IS NULL
ORDER BY t.opened_at, t.task_id
LIMIT %(rows_max)s
