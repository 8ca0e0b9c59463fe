-- Gives turns back that found nothing to do.
UPDATE sendledger.turn AS t
SET next_at = t.next_at - %(turns)s * %(step)s::interval
WHERE t.scope_key = %(scope_key)s
