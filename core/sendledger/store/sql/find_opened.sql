-- Tells which openings did commit: the attempt at the expected seq carries our claim token.
-- Needs the primary key of attempt.
SELECT a.intent_id
FROM unnest(%(intent_ids)s::bigint [], %(seqs)s::integer [], %(claim_tokens)s::uuid []) AS w (
    intent_id, seq, claim_token
)
INNER JOIN sendledger.attempt AS a
    ON a.intent_id = w.intent_id AND a.seq = w.seq + 1 AND a.claim_token = w.claim_token
