-- Gives claims back that opened nothing, each to be claimed again not before its own instant; a claim
-- given back does not count against the row. Moves only the queue columns. Locks these rows by primary key.
UPDATE sendledger.delivery AS d
SET claim_token = NULL,
    lease_until = NULL,
    claims = greatest(d.claims - 1, 0),
    wake_at = greatest(d.wake_at, w.wake_at)
FROM unnest(
    %(intent_ids)s::bigint [], %(claim_tokens)s::uuid [], %(wake_at)s::timestamptz []
) AS w (intent_id, claim_token, wake_at)
WHERE d.intent_id = w.intent_id
    AND d.intent_id = ANY (%(intent_ids)s::bigint [])
    AND d.claim_token = w.claim_token
    AND d.awaits IN ('dispatch', 'retry')
