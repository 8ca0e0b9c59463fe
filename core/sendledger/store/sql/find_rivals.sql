-- Returns which attempts of the channel were handed over to the same destination as these at about the same
-- time, and may still be the ones whose message a look-up found: open or unknown, and told no reference.
-- Reads open and unknown rows only, by indexes delivery_due and delivery_unknown, then by primary keys.
WITH undecided AS MATERIALIZED (
    SELECT d.intent_id
    FROM sendledger.delivery AS d
    WHERE d.channel = %(channel)s AND d.status = 'ambiguous'
    UNION ALL
    SELECT d.intent_id
    FROM sendledger.delivery AS d
    WHERE d.channel = %(channel)s AND d.awaits = 'result'
),
others AS MATERIALIZED (
    SELECT i.intent_id, i.destination_fingerprint
    FROM sendledger.intent AS i
    WHERE i.intent_id = ANY (ARRAY(SELECT u.intent_id FROM undecided AS u))
),
wanted AS MATERIALIZED (
    SELECT w.intent_id, w.number, a.opened_at, a.result_due_at, i.destination_fingerprint
    FROM unnest(%(intent_id)s::bigint [], %(number)s::smallint []) AS w (intent_id, number)
    INNER JOIN sendledger.intent AS i ON i.intent_id = w.intent_id
    INNER JOIN sendledger.attempt AS a ON a.intent_id = w.intent_id AND a.number = w.number
    WHERE i.intent_id = ANY (%(intent_id)s::bigint []) AND a.intent_id = ANY (%(intent_id)s::bigint [])
),
near AS MATERIALIZED (
    SELECT w.*, o.intent_id AS rival_id
    FROM others AS o
    INNER JOIN wanted AS w ON w.destination_fingerprint = o.destination_fingerprint
)
SELECT n.intent_id, n.number, n.rival_id, a.number AS rival_number
FROM near AS n
INNER JOIN sendledger.attempt AS a ON a.intent_id = n.rival_id
WHERE a.intent_id = ANY (ARRAY(SELECT m.rival_id FROM near AS m))
    AND (a.intent_id, a.number) <> (n.intent_id, n.number)
    AND a.opened_at <= n.result_due_at + %(slack)s
    AND n.opened_at <= a.result_due_at + %(slack)s
    AND NOT EXISTS (
        SELECT FROM sendledger.observation AS o
        WHERE o.intent_id = a.intent_id
            AND o.attempt = a.number
            AND (
                (o.outcome IN ('transient', 'permanent') AND NOT o.later)
                OR (o.provider_reference IS NOT NULL AND o.source <> 'look-up')
            )
    )
