-- Closes the open tasks of a kind and scope.
UPDATE sendledger.task AS t
SET closed_at = clock_timestamp(), closed_by = %(closed_by)s
WHERE t.kind = ANY (%(kinds)s::text []) AND t.scope_key = %(scope_key)s AND t.closed_at IS NULL
