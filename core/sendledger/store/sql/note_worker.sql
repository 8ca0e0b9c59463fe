-- Notes that a worker is there. For people only: no claim, lease or recovery looks at it.
INSERT INTO sendledger.worker (worker_id, pid, host, version, channels, in_flight)
VALUES (%(worker_id)s, %(pid)s, %(host)s, %(version)s, %(channels)s, %(in_flight)s)
ON CONFLICT (worker_id) DO UPDATE
SET seen_at = clock_timestamp(), in_flight = excluded.in_flight
