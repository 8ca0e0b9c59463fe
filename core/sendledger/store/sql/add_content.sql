-- Stores a content revision once; returns its id and nothing when it is there already.
INSERT INTO sendledger.content (template_revision, parts, settings, authored)
VALUES (%(template_revision)s, %(parts)s, %(settings)s, %(authored)s)
ON CONFLICT (template_revision) DO NOTHING
RETURNING content_id
