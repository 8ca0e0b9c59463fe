-- Writes folded columns of rows that are locked by this transaction; ends their claim.
UPDATE sendledger.delivery AS d
SET status = w.status,
    awaits = w.awaits,
    due_at = w.due_at,
    wake_at = w.wake_at,
    attempt_count = w.attempt_count,
    spent = w.spent,
    contradicted = w.contradicted,
    because = w.because,
    decision_seq = w.decision_seq,
    seq = w.seq,
    claims = 0,
    claim_token = CASE WHEN w.awaits = 'result' THEN d.claim_token END,
    lease_until = CASE WHEN w.awaits = 'result' THEN d.lease_until END
FROM unnest(
    %(intent_id)s::bigint [], %(status)s::text [], %(awaits)s::text [], %(due_at)s::timestamptz [],
    %(wake_at)s::timestamptz [], %(attempt_count)s::smallint [], %(spent)s::smallint [],
    %(contradicted)s::boolean [], %(because)s::integer [], %(decision_seq)s::integer [],
    %(seq)s::integer []
) AS w (
    intent_id, status, awaits, due_at, wake_at, attempt_count, spent, contradicted, because,
    decision_seq, seq
)
WHERE d.intent_id = w.intent_id AND d.intent_id = ANY (%(intent_id)s::bigint [])
