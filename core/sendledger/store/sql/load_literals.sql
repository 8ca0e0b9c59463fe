-- Returns the literal evidence of one intent that was not erased.
SELECT e.seq, e.literal FROM sendledger.evidence AS e WHERE e.intent_id = %(intent_id)s ORDER BY e.seq
