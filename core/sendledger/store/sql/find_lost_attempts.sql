-- Lists open attempts whose worker went away or whose result is overdue. Locks nothing: recording
-- re-reads each row. Needs indexes delivery_lease and delivery_due.
SELECT d.intent_id, d.attempt_count
FROM sendledger.delivery AS d
WHERE d.claim_token IS NOT NULL
    AND d.lease_until < coalesce(%(now)s::timestamptz, now())
    AND d.awaits = 'result'
    AND pg_postmaster_start_time() + %(lease)s < coalesce(%(now)s::timestamptz, now())
ORDER BY d.lease_until
LIMIT %(rows_max)s
