-- Closes a scope until its next probe; a scope that is closed already stays as it is.
INSERT INTO sendledger.back_off (scope_key, rule, probe_at)
VALUES (%(scope_key)s, %(rule)s, clock_timestamp() + %(wait)s)
ON CONFLICT (scope_key) DO NOTHING
RETURNING scope_key
