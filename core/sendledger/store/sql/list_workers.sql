-- Lists the workers that were there lately, and how long ago each was seen.
SELECT
    w.worker_id, w.started_at, w.seen_at, w.pid, w.host, w.version, w.channels, w.in_flight,
    clock_timestamp() - w.seen_at AS silent_for
FROM sendledger.worker AS w
ORDER BY w.started_at
