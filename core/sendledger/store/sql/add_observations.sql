-- Appends observations whose seq was given under the delivery's lock, with their literal side rows.
WITH incoming AS MATERIALIZED (
    SELECT w.*
    FROM unnest(
        %(intent_id)s::bigint [], %(seq)s::integer [], %(source)s::text [], %(rule)s::text [],
        %(identity)s::text [], %(attempt)s::smallint [], %(outcome)s::text [], %(scope)s::text [],
        %(later)s::boolean [], %(spent)s::boolean [], %(opt_out)s::boolean [], %(ruling)s::text [],
        %(due_at)s::timestamptz [], %(authorises)s::smallint [], %(cause)s::text [],
        %(stage)s::text [], %(reply_code)s::integer [], %(enhanced_code)s::text [],
        %(provider_reference)s::text [], %(occurred_at)s::timestamptz [],
        %(received_at)s::timestamptz [], %(actor)s::text [], %(literal)s::bytea [], %(seal)s::bytea []
    ) AS w (
        intent_id, seq, source, rule, identity, attempt, outcome, scope, later, spent, opt_out, ruling,
        due_at, authorises, cause, stage, reply_code, enhanced_code, provider_reference, occurred_at,
        received_at, actor, literal, seal
    )
),
noted AS (
    INSERT INTO sendledger.observation (
        intent_id, seq, source, rule, identity, attempt, outcome, scope, later, spent, opt_out, ruling,
        due_at, authorises, cause, stage, reply_code, enhanced_code, provider_reference, occurred_at,
        received_at, actor, policy_revision, seal
    )
    SELECT
        w.intent_id, w.seq, w.source, w.rule, w.identity, w.attempt, w.outcome, w.scope, w.later,
        w.spent, w.opt_out, w.ruling, w.due_at, w.authorises, w.cause, w.stage, w.reply_code,
        w.enhanced_code, w.provider_reference, w.occurred_at,
        coalesce(w.received_at, clock_timestamp()), w.actor, %(policy_revision)s, w.seal
    FROM incoming AS w
    ORDER BY w.intent_id, w.seq
    RETURNING intent_id, seq
)
INSERT INTO sendledger.evidence (intent_id, seq, literal)
SELECT w.intent_id, w.seq, w.literal
FROM incoming AS w
INNER JOIN noted AS n ON n.intent_id = w.intent_id AND n.seq = w.seq
WHERE octet_length(w.literal) > 0
