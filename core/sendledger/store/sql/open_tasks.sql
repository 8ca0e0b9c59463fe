-- Opens operator tasks; one open task a kind, cause and scope.
INSERT INTO sendledger.task (kind, cause, scope_key, intent_id)
SELECT w.kind, w.cause, w.scope_key, w.intent_id
FROM unnest(
    %(kind)s::text [], %(cause)s::text [], %(scope_key)s::text [], %(intent_id)s::bigint []
) AS w (kind, cause, scope_key, intent_id)
ON CONFLICT (kind, cause, scope_key) WHERE closed_at IS NULL DO NOTHING
