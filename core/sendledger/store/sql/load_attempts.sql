-- Returns the attempts of these intents. Needs the primary key.
SELECT
    a.intent_id, a.seq, a.number, a.result_due_at, a.unknown_due_at, a.evidence_due_at,
    a.window_ends_at, a.opened_at, a.decision_seq, a.policy_revision, a.seal, a.units
FROM sendledger.attempt AS a
WHERE a.intent_id = ANY (%(intent_ids)s::bigint [])
ORDER BY a.intent_id, a.number
