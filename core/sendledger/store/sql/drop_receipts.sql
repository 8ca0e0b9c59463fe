-- Takes receipts out of the inbox that this transaction has folded or set aside. By primary key.
DELETE FROM sendledger.inbox AS b
WHERE b.inbox_id = ANY (%(inbox_ids)s::bigint [])
