-- Returns when the next row of these channels can be acted on: null when there is none. A row in flight
-- counts as due, for its result is. A channel that backs off is not due before its probe; a paused one is
-- not due at all.
SELECT min(
    CASE
        WHEN d.awaits = 'result' THEN now()
        ELSE greatest(d.wake_at, f.probe_at)
    END
)
FROM sendledger.delivery AS d
LEFT JOIN sendledger.back_off AS f ON f.scope_key = 'channel:' || d.channel
WHERE d.channel = ANY (%(channels)s::text [])
    AND d.awaits IN ('dispatch', 'retry', 'result')
    AND (d.awaits = 'result' OR NOT EXISTS (
        SELECT FROM sendledger.pause AS p
        WHERE p.ended_at IS NULL AND p.scope_key IN ('all', 'channel:' || d.channel)
    ))
