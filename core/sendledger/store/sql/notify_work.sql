-- Tells listening workers, when this transaction commits, that a channel has work. Only a hint: polling
-- is the guarantee.
SELECT pg_notify('sendledger_work', %(channel)s)
