-- Finds the row of each channel and awaited event that has been overdue for longest, beyond a grace.
-- Locks nothing. Walks index delivery_due from channel to channel and reads one row of each, so that it
-- costs the same however many rows there are, and finds channels that are not configured any more.
WITH RECURSIVE channels AS (
    SELECT min(d.channel) AS channel FROM sendledger.delivery AS d WHERE d.awaits IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(d.channel) FROM sendledger.delivery AS d
        WHERE d.awaits IS NOT NULL AND d.channel > c.channel
    )
    FROM channels AS c
    WHERE c.channel IS NOT NULL
)
SELECT
    c.channel, w.awaits, i.intent_key, i.destination_fingerprint,
    coalesce(%(now)s::timestamptz, now()) - o.due_at AS overdue
FROM channels AS c
CROSS JOIN unnest(%(awaits)s::text []) AS w (awaits)
CROSS JOIN LATERAL (
    SELECT d.intent_id, d.due_at
    FROM sendledger.delivery AS d
    WHERE d.channel = c.channel
        AND d.awaits = w.awaits
        AND d.due_at < coalesce(%(now)s::timestamptz, now()) - %(grace)s::interval
    ORDER BY d.due_at
    LIMIT 1
) AS o
INNER JOIN sendledger.intent AS i ON i.intent_id = o.intent_id
ORDER BY c.channel, w.awaits
