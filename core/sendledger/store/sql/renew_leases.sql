-- Extends the leases that are still running under these claims. Locks those rows. Needs index
-- delivery_lease.
UPDATE sendledger.delivery AS d
SET lease_until = coalesce(%(now)s::timestamptz, now()) + %(lease)s
WHERE d.claim_token = ANY (%(claim_tokens)s::uuid [])
    AND d.lease_until > coalesce(%(now)s::timestamptz, now())
