-- Rebuilds deliveries from the ledger: writes the folded columns anew, or the whole row when it is gone.
INSERT INTO sendledger.delivery AS d (
    intent_id, batch_id, channel, lane, status, awaits, due_at, wake_at, attempt_count, spent,
    contradicted, because, decision_seq, seq
)
SELECT w.*
FROM unnest(
    %(intent_id)s::bigint [], %(batch_id)s::bigint [], %(channel)s::text [], %(lane)s::smallint [],
    %(status)s::text [], %(awaits)s::text [], %(due_at)s::timestamptz [], %(wake_at)s::timestamptz [],
    %(attempt_count)s::smallint [], %(spent)s::smallint [], %(contradicted)s::boolean [],
    %(because)s::integer [], %(decision_seq)s::integer [], %(seq)s::integer []
) AS w
