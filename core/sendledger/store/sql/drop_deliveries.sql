-- Removes the projection of these intents, to be written anew in the same transaction.
DELETE FROM sendledger.delivery AS d WHERE d.intent_id = ANY (%(intent_ids)s::bigint [])
