-- Taken by pause and resume, exclusively: waits for the openings under way. Ends with the transaction.
SELECT pg_advisory_xact_lock(%(dispatch_lock)s)
