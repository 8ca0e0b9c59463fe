-- Rebuilds deliveries from the ledger, claims dropped. Only an open attempt keeps its claim, until its
-- result is due: a worker that is still at it may renew the lease, else recovery finds it.
INSERT INTO sendledger.delivery AS d (
    intent_id, batch_id, channel, lane, status, awaits, due_at, wake_at, attempt_count, spent,
    contradicted, because, decision_seq, seq, claim_token, lease_until
)
SELECT w.*, a.claim_token, CASE WHEN a.claim_token IS NOT NULL THEN w.due_at END
FROM unnest(
    %(intent_id)s::bigint [], %(batch_id)s::bigint [], %(channel)s::text [], %(lane)s::smallint [],
    %(status)s::text [], %(awaits)s::text [], %(due_at)s::timestamptz [], %(wake_at)s::timestamptz [],
    %(attempt_count)s::smallint [], %(spent)s::smallint [], %(contradicted)s::boolean [],
    %(because)s::integer [], %(decision_seq)s::integer [], %(seq)s::integer []
) AS w (
    intent_id, batch_id, channel, lane, status, awaits, due_at, wake_at, attempt_count, spent,
    contradicted, because, decision_seq, seq
)
LEFT JOIN sendledger.attempt AS a
    ON w.awaits = 'result' AND a.intent_id = w.intent_id AND a.number = w.attempt_count
