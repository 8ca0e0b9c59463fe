-- Deals the next turns of scopes that are limited per second, shared by all workers: a scope's next_at is
-- when its next turn is free; one that has no row yet is left out. Rows are locked in key order. What gets
-- no turn is told when to come again, one interval after the other, at most the horizon away.
WITH asked AS MATERIALIZED (
    SELECT a.scope_key, a.wanted, a.interval_us, a.burst
    FROM unnest(
        %(scope_keys)s::text [], %(wanted)s::integer [], %(intervals_us)s::bigint [],
        %(bursts)s::integer []
    ) AS a (scope_key, wanted, interval_us, burst)
),
locked AS MATERIALIZED (
    SELECT t.scope_key, t.next_at, t.tail_at, clock_timestamp() AS now
    FROM sendledger.turn AS t
    INNER JOIN asked AS a ON a.scope_key = t.scope_key
    ORDER BY t.scope_key
    FOR UPDATE OF t
),
based AS (
    SELECT
        l.scope_key, l.now, a.wanted,
        a.interval_us * interval '1 microsecond' AS step,
        greatest(l.next_at, l.now - (a.burst - 1) * a.interval_us * interval '1 microsecond') AS base,
        l.tail_at
    FROM locked AS l
    INNER JOIN asked AS a ON a.scope_key = l.scope_key
),
dealt AS (
    SELECT
        b.scope_key, b.now, b.step, b.base, b.wanted, b.tail_at,
        least(
            b.wanted,
            greatest(0, floor(extract(EPOCH FROM b.now - b.base) / extract(EPOCH FROM b.step)) + 1)
        )::integer AS granted
    FROM based AS b
),
told AS (
    SELECT
        d.scope_key, d.now, d.step, d.granted, d.wanted - d.granted AS left_over,
        d.base + d.granted * d.step AS next_at,
        least(
            greatest(d.tail_at, d.base + d.granted * d.step), d.now + %(horizon)s
        ) AS again_at
    FROM dealt AS d
),
moved AS (
    UPDATE sendledger.turn AS t
    SET next_at = o.next_at,
        tail_at = o.again_at + CASE WHEN %(queueing)s THEN o.left_over ELSE 0 END * o.step
    FROM told AS o
    WHERE t.scope_key = o.scope_key
)
SELECT o.scope_key, o.granted, o.next_at, o.again_at, o.step FROM told AS o ORDER BY o.scope_key
