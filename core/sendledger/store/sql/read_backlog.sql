-- Reads what holds the server and us back: the age of the oldest receipt that is not folded yet (by
-- primary key), and the oldest snapshot that keeps VACUUM from removing dead rows of this database, in
-- transactions and, where it is a session's or a prepared transaction's, in time. A role without
-- pg_read_all_stats sees other roles' snapshots, but not since when they are held. Null is none.
WITH held AS (
    SELECT age(a.backend_xmin) AS transactions, now() - a.xact_start AS held
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.backend_xmin IS NOT NULL
        AND a.pid <> pg_backend_pid()
        AND (a.datid IS NULL OR a.datname = current_database())
    UNION ALL
    SELECT age(x.transaction), now() - x.prepared
    FROM pg_catalog.pg_prepared_xacts AS x
    WHERE x.database = current_database()
    UNION ALL
    SELECT age(s.xmin), NULL
    FROM pg_catalog.pg_replication_slots AS s
    WHERE s.xmin IS NOT NULL
)
SELECT
    (
        SELECT now() - b.received_at FROM sendledger.inbox AS b ORDER BY b.inbox_id LIMIT 1
    ) AS inbox,
    (SELECT max(h.transactions) FROM held AS h) AS xmin_transactions,
    (SELECT max(h.held) FROM held AS h) AS xmin_held
