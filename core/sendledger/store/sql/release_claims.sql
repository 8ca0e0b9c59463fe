-- Gives claims back that opened nothing; a claim given back does not count against the row. Moves only
-- the queue columns. Locks these rows by primary key.
UPDATE sendledger.delivery AS d
SET claim_token = NULL,
    lease_until = NULL,
    claims = greatest(d.claims - 1, 0),
    wake_at = greatest(d.wake_at, %(wake_at)s::timestamptz)
WHERE d.intent_id = ANY (%(intent_ids)s::bigint [])
    AND d.claim_token = ANY (%(claim_tokens)s::uuid [])
    AND d.awaits IN ('dispatch', 'retry')
