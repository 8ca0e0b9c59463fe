-- Opens attempts, one guarded UPDATE feeding the INSERT; only returned rows may go to a sender.
-- Locks first the dispatch, shared, then the delivery rows by primary key.
-- A function, so that its plan is kept: sendledger_migrations/dispatching.py.
SELECT *
FROM sendledger.open_attempts(
    %(dispatch_lock)s, %(intent_ids)s::bigint [], %(seqs)s::integer [],
    %(decision_seqs)s::integer [], %(claim_tokens)s::uuid [], %(go_until)s::timestamptz [],
    %(seals)s::bytea [], %(units)s::smallint [], %(handoff_max)s, %(unknown_wait)s,
    %(evidence_wait)s, %(window)s, %(margin)s, %(token_key_id)s::smallint, %(policy_revision)s
)
