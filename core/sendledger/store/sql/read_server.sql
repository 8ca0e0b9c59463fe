-- Returns what must be true of the server before anything is sent.
SELECT
    current_setting('fsync') = 'on' AS fsync,
    current_setting('synchronous_commit') <> 'off' AS synchronous_commit,
    pg_is_in_recovery() AS standby,
    current_setting('transaction_read_only') = 'on' AS read_only,
    current_setting('server_version_num')::integer AS version,
    now() AS now
