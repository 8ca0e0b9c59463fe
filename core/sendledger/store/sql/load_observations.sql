-- Returns the observations of these intents in ledger order. Needs the primary key.
SELECT
    o.intent_id, o.seq, o.source, o.rule, o.identity, o.attempt, o.outcome, o.scope, o.later, o.spent,
    o.opt_out, o.ruling, o.due_at, o.authorises, o.cause, o.stage, o.reply_code, o.enhanced_code,
    o.provider_reference, o.occurred_at, o.received_at, o.policy_revision, o.actor, o.seal
FROM sendledger.observation AS o
WHERE o.intent_id = ANY (%(intent_ids)s::bigint [])
ORDER BY o.intent_id, o.seq
