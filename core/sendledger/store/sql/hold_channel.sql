-- Serialises the openings of a channel whose attempts in flight are limited. Ends with the transaction.
SELECT pg_advisory_xact_lock(%(limit_lock)s, hashtext(%(channel)s))
