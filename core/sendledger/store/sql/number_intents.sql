-- Returns so many ids for new intents, none of them given to anybody else.
SELECT array_agg(nextval('sendledger.intent_intent_id_seq')) FROM generate_series(1, %(count)s)
