-- Adds standing refusals, each with the observation it rests on; one that stands already stays.
INSERT INTO sendledger.suppression (destination_fingerprint, scope_key, rule, intent_id, seq)
SELECT w.destination_fingerprint, w.scope_key, w.rule, w.intent_id, w.seq
FROM unnest(
    %(destination_fingerprint)s::bytea [], %(scope_key)s::text [], %(rule)s::text [],
    %(intent_id)s::bigint [], %(seq)s::integer []
) AS w (destination_fingerprint, scope_key, rule, intent_id, seq)
ON CONFLICT (destination_fingerprint, scope_key) WHERE lifted_at IS NULL DO NOTHING
