-- Counts the open operator tasks by kind. Needs index task_open.
SELECT t.kind, count(*) AS rows FROM sendledger.task AS t WHERE t.closed_at IS NULL GROUP BY t.kind
