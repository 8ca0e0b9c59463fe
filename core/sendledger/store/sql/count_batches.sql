-- Counts the deliveries of each batch by status, awaits and, of those awaited, the earliest due instant.
-- Scans delivery: for people, not for loops.
SELECT
    b.batch_id, b.report, b.channel, b.content_revision, b.purpose, b.authorization_id,
    b.authorized_by, b.authorized_at, b.planned_at,
    d.status, d.awaits, d.contradicted, d.rows, d.due_first, d.due_last, d.rows_due
FROM sendledger.batch AS b
INNER JOIN (
    SELECT
        batch_id, status, awaits, contradicted, count(*) AS rows, min(due_at) AS due_first,
        max(due_at) AS due_last,
        count(*) FILTER (WHERE due_at <= coalesce(%(now)s::timestamptz, now())) AS rows_due
    FROM sendledger.delivery
    GROUP BY batch_id, status, awaits, contradicted
) AS d ON d.batch_id = b.batch_id
WHERE %(batch)s::text IS NULL
    OR b.report = %(batch)s
    OR b.batch_id::text = %(batch)s
    OR b.report || '/' || b.content_revision = %(batch)s
    OR b.report || '/' || b.content_revision || '/' || b.channel = %(batch)s
ORDER BY b.planned_at, b.batch_id, d.status, d.awaits NULLS FIRST
