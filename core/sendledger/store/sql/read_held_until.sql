-- Returns by when the next rows_max rows of a channel that are held were put on hold, after an instant; null
-- when there are fewer. Locks nothing. Needs index delivery_due.
SELECT d.due_at
FROM sendledger.delivery AS d
WHERE d.channel = %(channel)s
    AND d.awaits = 'release'
    AND d.due_at > coalesce(%(since)s::timestamptz, '-infinity')
ORDER BY d.due_at
OFFSET %(rows_max)s - 1
LIMIT 1
