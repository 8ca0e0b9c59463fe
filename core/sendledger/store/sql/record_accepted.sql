-- The common case in one statement: the answer to the newest attempt is acceptance, nothing else came
-- in between (seq fits), and every earlier attempt was refused. Rows that miss take the slow path.
-- Locks the delivery rows by primary key.
-- A function, so that its plan is kept: sendledger_migrations/dispatching.py.
SELECT *
FROM sendledger.record_accepted(
    %(intent_ids)s::bigint [], %(numbers)s::smallint [], %(seqs)s::integer [], %(rules)s::text [],
    %(stages)s::text [], %(reply_codes)s::integer [], %(enhanced_codes)s::text [],
    %(provider_references)s::text [], %(literals)s::bytea [], %(seals)s::bytea [],
    %(policy_revision)s, %(asked)s::text []
)
