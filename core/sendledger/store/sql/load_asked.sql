-- Returns what these intents' attempts are recognised by at their provider: all that was handed over, and
-- the reference that it is known by, one that was told before one that was found. The secrets are null once
-- erased. By primary keys.
SELECT
    a.intent_id, a.number, a.opened_at, a.result_due_at, a.token_key_id,
    i.intent_key, i.not_after, b.content_id, s.destination, s.variables,
    (
        SELECT o.provider_reference
        FROM sendledger.observation AS o
        WHERE o.intent_id = a.intent_id AND o.attempt = a.number AND o.provider_reference IS NOT NULL
        ORDER BY o.source = 'look-up', o.seq
        LIMIT 1
    ) AS provider_reference
FROM sendledger.attempt AS a
INNER JOIN sendledger.intent AS i ON i.intent_id = a.intent_id
INNER JOIN sendledger.batch AS b ON b.batch_id = i.batch_id
LEFT JOIN sendledger.recipient_secret AS s ON s.intent_id = a.intent_id
WHERE a.intent_id = ANY (%(intent_ids)s::bigint [])
ORDER BY a.intent_id, a.number
