-- Returns the clock, and the last intent there is: what this run of planning adds comes after it. Reads
-- one entry of the primary key.
SELECT
    clock_timestamp() AS now,
    coalesce((SELECT max(i.intent_id) FROM sendledger.intent AS i), 0) AS last_intent_id
