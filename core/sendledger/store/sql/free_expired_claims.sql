-- Frees claims whose lease ended before an attempt was opened: nothing happened, anyone may claim them.
-- Not within one lease of the server's start: workers must first have had the chance to renew.
-- Needs index delivery_lease.
WITH picked AS MATERIALIZED (
    SELECT d.intent_id
    FROM sendledger.delivery AS d
    WHERE d.claim_token IS NOT NULL
        AND d.lease_until < coalesce(%(now)s::timestamptz, now())
        AND d.awaits <> 'result'
        AND pg_postmaster_start_time() + %(lease)s < coalesce(%(now)s::timestamptz, now())
    ORDER BY d.lease_until
    LIMIT %(rows_max)s
    FOR UPDATE SKIP LOCKED
)
UPDATE sendledger.delivery AS d
SET claim_token = NULL, lease_until = NULL
WHERE d.intent_id = ANY (ARRAY(SELECT p.intent_id FROM picked AS p))
RETURNING d.intent_id
