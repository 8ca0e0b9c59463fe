-- Counts the rows that are overdue beyond a grace by channel, awaited event and how long; edges are the
-- ages that part the groups, longest first, so that group 0 is the oldest. Gives the row of each group
-- that has waited longest as an example. Locks nothing. Reads only overdue rows: index delivery_due.
WITH RECURSIVE channels AS (
    SELECT min(d.channel) AS channel FROM sendledger.delivery AS d WHERE d.awaits IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(d.channel) FROM sendledger.delivery AS d
        WHERE d.awaits IS NOT NULL AND d.channel > c.channel
    )
    FROM channels AS c
    WHERE c.channel IS NOT NULL
),
edges AS (
    SELECT array_agg(coalesce(%(now)s::timestamptz, now()) - %(grace)s::interval - e.age ORDER BY e.n) AS at
    FROM unnest(%(edges)s::interval []) WITH ORDINALITY AS e (age, n)
)
SELECT c.channel, w.awaits, g.age_group, g.rows, g.due_first, i.intent_key
FROM channels AS c
CROSS JOIN unnest(%(awaits)s::text []) AS w (awaits)
CROSS JOIN edges AS e
CROSS JOIN LATERAL (
    SELECT width_bucket(d.due_at, e.at) AS age_group, count(*) AS rows, min(d.due_at) AS due_first
    FROM sendledger.delivery AS d
    WHERE d.channel = c.channel
        AND d.awaits = w.awaits
        AND d.due_at < coalesce(%(now)s::timestamptz, now()) - %(grace)s::interval
    GROUP BY age_group
) AS g
CROSS JOIN LATERAL (
    SELECT d.intent_id
    FROM sendledger.delivery AS d
    WHERE d.channel = c.channel AND d.awaits = w.awaits AND d.due_at = g.due_first
    LIMIT 1
) AS x
INNER JOIN sendledger.intent AS i ON i.intent_id = x.intent_id
ORDER BY c.channel, g.due_first
