-- Locks those of these receipts that nobody else is folding, and returns their ids. In key order, by
-- primary key. Before the deliveries, as everybody does who locks both.
SELECT b.inbox_id
FROM sendledger.inbox AS b
WHERE b.inbox_id = ANY (%(inbox_ids)s::bigint [])
ORDER BY b.inbox_id
FOR UPDATE SKIP LOCKED
