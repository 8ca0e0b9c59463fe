-- Tells whether any batch lies in a scope. Scans the batches: for people, not for loops.
SELECT EXISTS (
    SELECT FROM sendledger.batch AS b WHERE %(scope_key)s::text = ANY (b.scope_keys)
)
