-- Returns the clock, the instant of the transaction, and the last intent there is: what this run of
-- planning adds comes after it. Reads one entry of the primary key.
SELECT
    clock_timestamp() AS now,
    now() AS planned_at,
    coalesce((SELECT max(i.intent_id) FROM sendledger.intent AS i), 0) AS last_intent_id
