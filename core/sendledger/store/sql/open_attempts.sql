-- Opens attempts, one guarded UPDATE feeding the INSERT; only returned rows may go to a sender.
-- Locks the delivery rows by primary key. The guards use clock_timestamp() because the statement may
-- have waited for a row lock. The token is compared in a way that no index is chosen for: the one of leases
-- looks small to the planner, however many dead entries a held snapshot keeps in it.
WITH wanted AS MATERIALIZED (
    SELECT w.*, clock_timestamp() AS opened_at
    FROM unnest(
        %(intent_ids)s::bigint [], %(seqs)s::integer [], %(decision_seqs)s::integer [],
        %(claim_tokens)s::uuid [], %(go_until)s::timestamptz [], %(seals)s::bytea [],
        %(units)s::smallint []
    ) AS w (intent_id, seq, decision_seq, claim_token, go_until, seal, units)
),
opened AS (
    UPDATE sendledger.delivery AS d
    SET status = 'submitting',
        awaits = 'result',
        attempt_count = d.attempt_count + 1,
        spent = d.spent + 1,
        claims = 0,
        seq = d.seq + 1,
        because = d.seq + 1,
        decision_seq = NULL,
        due_at = w.opened_at + %(handoff_max)s,
        wake_at = NULL
    FROM wanted AS w
    INNER JOIN sendledger.intent AS i ON i.intent_id = w.intent_id
    INNER JOIN sendledger.batch AS b ON b.batch_id = i.batch_id
    WHERE d.intent_id = w.intent_id
        AND d.intent_id = ANY (%(intent_ids)s::bigint [])
        AND d.seq = w.seq
        AND d.awaits IN ('dispatch', 'retry')
        AND w.claim_token IS NOT DISTINCT FROM d.claim_token
        AND d.lease_until > clock_timestamp() + %(margin)s
        AND clock_timestamp() < least(w.go_until, i.not_after)
        AND NOT b.scope_keys && ARRAY(
            SELECT p.scope_key FROM sendledger.pause AS p WHERE p.ended_at IS NULL
        )
        AND NOT EXISTS (
            SELECT FROM sendledger.suppression AS x
            WHERE x.destination_fingerprint = i.destination_fingerprint
                AND x.scope_key = ANY (b.scope_keys)
                AND x.lifted_at IS NULL
                AND coalesce(x.expires_at, 'infinity') > clock_timestamp()
            OFFSET 0
        )
    RETURNING d.intent_id, d.attempt_count, d.seq, w.decision_seq, w.claim_token, w.opened_at,
        w.seal, w.units
)
INSERT INTO sendledger.attempt (
    intent_id, number, seq, decision_seq, claim_token, token_key_id, policy_revision, seal, units,
    opened_at, result_due_at, unknown_due_at, evidence_due_at, window_ends_at
)
SELECT
    o.intent_id, o.attempt_count, o.seq, o.decision_seq, o.claim_token, %(token_key_id)s,
    %(policy_revision)s, o.seal, o.units, o.opened_at, o.opened_at + %(handoff_max)s,
    o.opened_at + %(unknown_wait)s, o.opened_at + %(evidence_wait)s, o.opened_at + %(window)s
FROM opened AS o
RETURNING intent_id, number
