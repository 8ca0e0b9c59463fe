-- Counts the open attempts of a channel by destination domain. Needs index delivery_due.
SELECT i.domain_key, count(*)
FROM sendledger.delivery AS d
INNER JOIN sendledger.intent AS i ON i.intent_id = d.intent_id
WHERE d.channel = %(channel)s AND d.awaits = 'result'
GROUP BY i.domain_key
