-- Returns an id for each of these intent keys that is not in the ledger yet, with its place in the list.
-- Looks up each in the index of keys: as a join it may be planned as a scan of all intents there are.
SELECT w.place, nextval('sendledger.intent_intent_id_seq') AS intent_id
FROM unnest(%(intent_keys)s::bytea []) WITH ORDINALITY AS w (intent_key, place)
WHERE (SELECT true FROM sendledger.intent AS i WHERE i.intent_key = w.intent_key) IS NULL
