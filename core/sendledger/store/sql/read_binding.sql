-- Returns which installation this database is bound to, and the schema it is at.
SELECT
    n.installation_id,
    (SELECT v.version_num FROM public.sendledger_schema_version AS v) AS schema_revision
FROM sendledger.installation AS n
