-- Returns which attempts hold any of these provider references. By index observation_reference.
SELECT DISTINCT o.provider_reference, o.intent_id, o.attempt
FROM sendledger.observation AS o
WHERE o.provider_reference = ANY (%(references)s::text [])
    AND o.stage IS DISTINCT FROM 'dot'
    AND o.attempt IS NOT NULL
