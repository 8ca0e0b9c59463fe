-- Taken before each opening, shared: a pause takes it exclusively, so that once pause has returned no
-- opening that did not see it can commit. Ends with the transaction.
SELECT pg_advisory_xact_lock_shared(%(dispatch_lock)s)
