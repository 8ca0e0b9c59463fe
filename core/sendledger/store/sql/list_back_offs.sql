-- Lists what is closed by an outage now, and when it is probed next.
SELECT f.scope_key, f.rule, f.began_at, f.probe_at, f.probes FROM sendledger.back_off AS f
ORDER BY f.began_at
