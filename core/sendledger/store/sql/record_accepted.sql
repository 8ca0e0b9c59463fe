-- The common case in one statement: the answer to the newest attempt is acceptance, nothing else came
-- in between (seq fits), and every earlier attempt was refused. Rows that miss take the slow path.
-- Locks the delivery rows by primary key. The status is asked for in a way that says nothing to the planner:
-- it knows how few rows are in flight, expects one, and then compares each row with each.
WITH incoming AS MATERIALIZED (
    SELECT w.*
    FROM unnest(
        %(intent_ids)s::bigint [], %(numbers)s::smallint [], %(seqs)s::integer [], %(rules)s::text [],
        %(stages)s::text [], %(reply_codes)s::integer [], %(enhanced_codes)s::text [],
        %(provider_references)s::text [], %(literals)s::bytea [], %(seals)s::bytea []
    ) AS w (
        intent_id, number, seq, rule, stage, reply_code, enhanced_code, provider_reference, literal, seal
    )
),
moved AS (
    UPDATE sendledger.delivery AS d
    SET status = 'submitted',
        awaits = 'evidence',
        due_at = a.evidence_due_at,
        wake_at = CASE
            WHEN d.channel = ANY (%(asked)s::text []) THEN a.evidence_due_at ELSE a.window_ends_at
        END,
        seq = w.seq,
        because = w.seq,
        claim_token = NULL,
        lease_until = NULL
    FROM incoming AS w
    INNER JOIN sendledger.attempt AS a ON a.intent_id = w.intent_id AND a.number = w.number
    WHERE d.intent_id = w.intent_id
        AND d.intent_id = ANY (%(intent_ids)s::bigint [])
        AND d.seq = w.seq - 1
        AND CASE d.status WHEN 'submitting' THEN true ELSE false END
    RETURNING w.*
),
noted AS (
    INSERT INTO sendledger.observation (
        intent_id, seq, attempt, source, outcome, rule, identity, stage, reply_code, enhanced_code,
        provider_reference, policy_revision, seal
    )
    SELECT
        m.intent_id, m.seq, m.number, 'channel', 'accepted', m.rule, 'result/' || m.number, m.stage,
        m.reply_code, m.enhanced_code, m.provider_reference, %(policy_revision)s, m.seal
    FROM moved AS m
),
kept AS (
    INSERT INTO sendledger.evidence (intent_id, seq, literal)
    SELECT m.intent_id, m.seq, m.literal
    FROM moved AS m
    WHERE octet_length(m.literal) > 0
)
SELECT m.intent_id FROM moved AS m
