-- Commits receipts before they are acknowledged, and tells listening workers when they are committed. One that
-- waits here already is left out, by the unique key; one that was folded is recognised then. Keys are
-- inserted in one order: two groups with the same receipts never deadlock.
WITH kept AS (
    INSERT INTO sendledger.inbox (
        intent_id, attempt, channel, source, identity, occurred_at, evidence, body
    )
    SELECT
        w.intent_id, w.attempt, w.channel, w.source, w.identity, w.occurred_at, w.evidence::json, w.body
    FROM unnest(
        %(intent_id)s::bigint [], %(attempt)s::smallint [], %(channel)s::text [], %(source)s::text [],
        %(identity)s::text [], %(occurred_at)s::timestamptz [], %(evidence)s::text [], %(body)s::bytea []
    ) AS w (intent_id, attempt, channel, source, identity, occurred_at, evidence, body)
    ORDER BY w.intent_id, w.attempt, w.channel, w.source, w.identity
    ON CONFLICT DO NOTHING
)
SELECT pg_notify('sendledger_work', %(hint)s)
