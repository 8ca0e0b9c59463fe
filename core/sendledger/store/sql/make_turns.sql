-- Makes the rows of scopes that were never asked for a turn, in key order; all their turns are free.
INSERT INTO sendledger.turn (scope_key, next_at, tail_at)
SELECT s.scope_key, '-infinity', '-infinity'
FROM unnest(%(scope_keys)s::text []) AS s (scope_key)
ORDER BY s.scope_key
ON CONFLICT (scope_key) DO NOTHING
