-- Pauses a scope unless it is paused already; returns the row it made.
INSERT INTO sendledger.pause (scope_key, rule, began_by, configuration, stage, reply_code, literal)
VALUES (
    %(scope_key)s, %(rule)s, %(began_by)s, %(configuration)s, %(stage)s, %(reply_code)s, %(literal)s
)
ON CONFLICT (scope_key) WHERE ended_at IS NULL DO NOTHING
RETURNING pause_id
