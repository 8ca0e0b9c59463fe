-- Returns when the next row of these channels can be acted on: null when there is none. A row in flight
-- counts as due, for its result is. A channel that backs off is not due before its probe; a paused one is
-- not due at all. Reads one row of each kind: indexes delivery_claim, delivery_lease and delivery_due.
WITH channels AS (
    SELECT c.channel, (
        SELECT f.probe_at FROM sendledger.back_off AS f WHERE f.scope_key = 'channel:' || c.channel
    ) AS probe_at
    FROM unnest(%(channels)s::text []) AS c (channel)
),
waiting AS (
    SELECT c.channel, greatest(n.wake_at, c.probe_at) AS due_at
    FROM channels AS c
    CROSS JOIN (VALUES (0::smallint), (1::smallint)) AS l (lane)
    CROSS JOIN LATERAL (
        SELECT d.wake_at FROM sendledger.delivery AS d
        WHERE d.channel = c.channel
            AND d.lane = l.lane
            AND d.claim_token IS NULL
            AND d.awaits IN ('dispatch', 'retry')
        ORDER BY d.wake_at
        LIMIT 1
    ) AS n
),
claimed AS (
    SELECT c.channel, greatest(n.wake_at, c.probe_at) AS due_at
    FROM channels AS c
    CROSS JOIN LATERAL (
        SELECT d.wake_at FROM sendledger.delivery AS d
        WHERE d.channel = c.channel
            AND d.claim_token IS NOT NULL
            AND d.awaits IN ('dispatch', 'retry')
        ORDER BY d.lease_until
        LIMIT 1
    ) AS n
),
open_now AS (
    SELECT now() AS due_at
    FROM channels AS c
    CROSS JOIN LATERAL (
        SELECT FROM sendledger.delivery AS d
        WHERE d.channel = c.channel AND d.awaits = 'result'
        ORDER BY d.due_at
        LIMIT 1
    ) AS n
)
SELECT min(f.due_at)
FROM (
    SELECT w.due_at
    FROM (SELECT * FROM waiting UNION ALL SELECT * FROM claimed) AS w
    WHERE NOT EXISTS (
        SELECT FROM sendledger.pause AS p
        WHERE p.ended_at IS NULL AND p.scope_key IN ('all', 'channel:' || w.channel)
    )
    UNION ALL
    SELECT o.due_at FROM open_now AS o
) AS f
