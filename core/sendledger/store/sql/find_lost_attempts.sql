-- Lists open attempts whose worker went away or whose result is overdue. Locks nothing: recording
-- re-reads each row. Not within one lease of the server's start: workers must first have had the chance
-- to renew. Reads the claimed rows, which are few: index delivery_lease. What they await is asked in a way
-- that says nothing to the planner, which would rather scan the table for something so rare.
SELECT d.intent_id, d.attempt_count
FROM sendledger.delivery AS d
WHERE d.claim_token IS NOT NULL
    AND least(d.lease_until, d.due_at) < coalesce(%(now)s::timestamptz, now())
    AND CASE d.awaits WHEN 'result' THEN true ELSE false END
    AND pg_postmaster_start_time() + %(lease)s < coalesce(%(now)s::timestamptz, now())
ORDER BY d.lease_until
LIMIT %(rows_max)s
