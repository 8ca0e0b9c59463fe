-- Keeps what a policy revision said, once.
INSERT INTO sendledger.policy_revision (revision, document)
VALUES (%(revision)s, %(document)s)
ON CONFLICT (revision) DO NOTHING
