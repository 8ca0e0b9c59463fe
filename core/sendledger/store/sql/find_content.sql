-- Finds a content revision by its digest.
SELECT c.content_id FROM sendledger.content AS c WHERE c.template_revision = %(template_revision)s
