-- Locks deliveries in key order and returns what the fold and the decisions need of their intents.
-- Every fold happens under this lock; seq is given under it.
SELECT
    d.intent_id, d.seq, d.channel, d.lane, d.batch_id,
    i.intent_key, i.eligible_at, i.not_after, i.provenance, i.destination_fingerprint,
    b.scope_keys,
    coalesce(d.lease_until < clock_timestamp(), false) AS lease_ended,
    clock_timestamp() AS now
FROM sendledger.delivery AS d
INNER JOIN sendledger.intent AS i ON i.intent_id = d.intent_id
INNER JOIN sendledger.batch AS b ON b.batch_id = d.batch_id
WHERE d.intent_id = ANY (%(intent_ids)s::bigint [])
ORDER BY d.intent_id
FOR UPDATE OF d
