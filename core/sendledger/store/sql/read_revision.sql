-- Returns the revision of the schema, as the migrations note it.
SELECT v.version_num FROM public.sendledger_schema_version AS v
