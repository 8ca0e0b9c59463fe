-- Taken before a batch is looked up: whoever plans the same batch waits until this transaction ends, so
-- two of them never wait for each other's rows, whatever order they come in.
SELECT pg_advisory_xact_lock(%(planning_lock)s)
