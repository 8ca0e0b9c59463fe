-- Takes rows of one channel whose wait for evidence is due for a look, oldest first, and keeps others from
-- them for a while; who dies in between is followed when it is over. What waits in the inbox is folded
-- first. Locks the picked rows, skipping locked ones. Needs index delivery_wake.
WITH picked AS MATERIALIZED (
    SELECT d.intent_id
    FROM sendledger.delivery AS d
    WHERE d.channel = %(channel)s
        AND d.awaits = 'evidence'
        AND d.wake_at <= coalesce(%(now)s::timestamptz, now())
        AND NOT EXISTS (SELECT FROM sendledger.inbox AS b WHERE b.intent_id = d.intent_id)
    ORDER BY d.wake_at
    LIMIT %(rows_max)s
    FOR UPDATE SKIP LOCKED
)
UPDATE sendledger.delivery AS d
SET wake_at = coalesce(%(now)s::timestamptz, now()) + %(hold)s
WHERE d.intent_id = ANY (ARRAY(SELECT p.intent_id FROM picked AS p))
RETURNING d.intent_id, d.looked_at
