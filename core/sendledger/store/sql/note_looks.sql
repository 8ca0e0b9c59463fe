-- Notes when rows that still await evidence are looked at again, and since when their provider has answered;
-- null where it did not. Queue state: nobody's history. By primary key, in key order.
WITH wanted AS MATERIALIZED (
    SELECT w.intent_id, w.wake_at, w.looked_at
    FROM unnest(
        %(intent_id)s::bigint [], %(wake_at)s::timestamptz [], %(looked_at)s::timestamptz []
    ) AS w (intent_id, wake_at, looked_at)
),
locked AS MATERIALIZED (
    SELECT d.intent_id
    FROM sendledger.delivery AS d
    WHERE d.intent_id = ANY (%(intent_id)s::bigint []) AND d.awaits = 'evidence'
    ORDER BY d.intent_id
    FOR UPDATE
)
UPDATE sendledger.delivery AS d
SET wake_at = w.wake_at,
    looked_at = coalesce(w.looked_at, d.looked_at)
FROM wanted AS w
INNER JOIN locked AS l ON l.intent_id = w.intent_id
WHERE d.intent_id = w.intent_id AND d.intent_id = ANY (%(intent_id)s::bigint [])
