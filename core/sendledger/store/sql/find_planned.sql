-- Returns those of these intent keys that are in the ledger already.
-- Looks up each in the index of keys: as a join it may be planned as a scan of all intents there are.
SELECT w.intent_key
FROM unnest(%(intent_keys)s::bytea []) AS w (intent_key)
WHERE (SELECT true FROM sendledger.intent AS i WHERE i.intent_key = w.intent_key)
