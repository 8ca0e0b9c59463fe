-- Returns the identity this database is bound to.
SELECT n.installation_id FROM sendledger.installation AS n
