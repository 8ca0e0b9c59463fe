-- Returns one content revision.
SELECT c.content_id, c.template_revision, c.parts, c.settings
FROM sendledger.content AS c
WHERE c.content_id = %(content_id)s
