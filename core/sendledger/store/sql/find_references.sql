-- Returns which attempts hold any of these provider references, and whether it was told of them (by an answer
-- or a receipt) or only found by a look-up. By index observation_reference.
SELECT o.provider_reference, o.intent_id, o.attempt, bool_or(o.source <> 'look-up') AS told
FROM sendledger.observation AS o
WHERE o.provider_reference = ANY (%(references)s::text [])
    AND o.stage IS DISTINCT FROM 'dot'
    AND o.attempt IS NOT NULL
GROUP BY o.provider_reference, o.intent_id, o.attempt
