-- Forgets a worker that ended, and those nobody has seen for a day.
DELETE FROM sendledger.worker AS w
WHERE w.worker_id = %(worker_id)s OR w.seen_at < clock_timestamp() - interval '1 day'
