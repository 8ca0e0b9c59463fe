-- Taken before it is looked who holds the references that look-ups found: whoever would adopt one meanwhile
-- waits until this transaction ends, and then sees who took it.
SELECT pg_advisory_xact_lock(%(adoption_lock)s)
