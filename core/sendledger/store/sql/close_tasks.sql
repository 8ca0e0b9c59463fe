-- Closes the open tasks of these kinds that a scope has, or that it is the cause of.
UPDATE sendledger.task AS t
SET closed_at = clock_timestamp(), closed_by = %(closed_by)s
WHERE t.kind = ANY (%(kinds)s::text [])
    AND %(scope_key)s IN (t.scope_key, t.cause)
    AND t.closed_at IS NULL
