-- Gives turns back that found nothing to do, unless somebody took turns since: what they got was dealt on the
-- strength of ours, and both together would be more than a second may have.
UPDATE sendledger.turn AS t
SET next_at = t.next_at - %(turns)s * %(step)s::interval
WHERE t.scope_key = %(scope_key)s
    AND t.next_at = %(next_at)s
