-- Lists open operator tasks, oldest first.
SELECT t.task_id, t.kind, t.cause, t.scope_key, t.opened_at, i.intent_key
FROM sendledger.task AS t
LEFT JOIN sendledger.intent AS i ON i.intent_id = t.intent_id
WHERE t.closed_at IS NULL
ORDER BY t.opened_at, t.task_id
LIMIT %(rows_max)s
