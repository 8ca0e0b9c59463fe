-- Closes one open task by its primary key; a closed one stays as it is.
UPDATE sendledger.task AS t
SET closed_at = clock_timestamp(), closed_by = %(closed_by)s
WHERE t.task_id = %(task_id)s AND t.closed_at IS NULL
RETURNING t.kind, t.cause, t.scope_key
