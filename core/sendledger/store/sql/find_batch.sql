-- Returns the header of one report, channel and content revision.
SELECT
    b.batch_id, b.report, b.channel, b.content_revision, b.purpose, b.lane, b.content_id,
    b.authorization_id, b.authorized_by, b.authorized_at, b.planned_at, b.scope_keys
FROM sendledger.batch AS b
WHERE b.report = %(report)s AND b.channel = %(channel)s AND b.content_revision = %(content_revision)s
