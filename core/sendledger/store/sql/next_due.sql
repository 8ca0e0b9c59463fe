-- Returns when the next row of these channels wakes that a worker could act on; null when there is none.
-- Rows held back by a pause do not count: no worker can act on them.
SELECT min(d.wake_at)
FROM sendledger.delivery AS d
WHERE d.channel = ANY (%(channels)s::text [])
    AND d.awaits IN ('dispatch', 'retry')
    AND NOT EXISTS (
        SELECT FROM sendledger.pause AS p
        WHERE p.ended_at IS NULL AND p.scope_key IN ('all', 'channel:' || d.channel)
    )
