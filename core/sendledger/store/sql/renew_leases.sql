-- Extends the leases that are still running under these claims. Rows that are locked are being opened or
-- recorded just now: they are skipped, and the next heartbeat comes before their lease ends. So this waits
-- for nobody, and no deadlock with statements that lock the same rows in another order can include it.
-- Needs index delivery_lease.
WITH running AS MATERIALIZED (
    SELECT d.intent_id
    FROM sendledger.delivery AS d
    WHERE d.claim_token = ANY (%(claim_tokens)s::uuid [])
        AND d.lease_until > coalesce(%(now)s::timestamptz, now())
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE sendledger.delivery AS d
SET lease_until = coalesce(%(now)s::timestamptz, now()) + %(lease)s
WHERE d.intent_id = ANY (ARRAY(SELECT r.intent_id FROM running AS r))
