-- Lets one worker probe a closed scope, and sets when the next may, should this one learn nothing.
UPDATE sendledger.back_off AS f
SET probe_at = clock_timestamp() + least(
        %(probe)s::interval * power(2, least(f.probes, 16)), %(probe_max)s::interval
    ),
    probes = f.probes + 1
WHERE f.scope_key = %(scope_key)s AND f.probe_at <= clock_timestamp()
RETURNING f.began_at, f.rule, clock_timestamp() AS now
