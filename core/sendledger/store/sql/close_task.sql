-- Closes one open task by its primary key; a closed one stays as it is. A batch is named as people name it.
UPDATE sendledger.task AS t
SET closed_at = clock_timestamp(), closed_by = %(closed_by)s
WHERE t.task_id = %(task_id)s AND t.closed_at IS NULL
RETURNING
    t.kind, t.cause,
    coalesce(
        (
            SELECT 'batch:' || b.report || '/' || b.content_revision || '/' || b.channel
            FROM sendledger.batch AS b
            WHERE 'batch:' || b.batch_id::text = t.scope_key
        ),
        t.scope_key
    ) AS scope_key
