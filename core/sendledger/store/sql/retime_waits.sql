-- Moves waits for evidence that were to be looked up, and are not any more, to when they end; returns those.
-- Queue state: nobody's history. By primary key, in key order.
WITH locked AS MATERIALIZED (
    SELECT
        d.intent_id,
        CASE WHEN d.status = 'ambiguous' THEN d.due_at ELSE greatest(d.due_at, (
            SELECT max(a.window_ends_at) FROM sendledger.attempt AS a
            WHERE a.intent_id = d.intent_id
        )) END AS ends_at
    FROM sendledger.delivery AS d
    WHERE d.intent_id = ANY (%(intent_ids)s::bigint []) AND d.awaits = 'evidence'
    ORDER BY d.intent_id
    FOR UPDATE OF d
)
UPDATE sendledger.delivery AS d
SET wake_at = l.ends_at
FROM locked AS l
WHERE d.intent_id = l.intent_id
    AND d.intent_id = ANY (%(intent_ids)s::bigint [])
    AND d.wake_at < l.ends_at
RETURNING d.intent_id
