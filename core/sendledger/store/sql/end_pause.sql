-- Ends the pause of a scope; returns the rows it ended.
UPDATE sendledger.pause AS p
SET ended_at = clock_timestamp(), ended_by = %(ended_by)s
WHERE p.scope_key = %(scope_key)s AND p.ended_at IS NULL
RETURNING p.pause_id
