-- Creates the batch header unless there is one for this report, channel and content revision.
INSERT INTO sendledger.batch (
    report, channel, content_revision, purpose, lane, content_id, authorization_id, authorized_by,
    authorized_at, scope_keys
)
VALUES (
    %(report)s, %(channel)s, %(content_revision)s, %(purpose)s, %(lane)s, %(content_id)s,
    %(authorization_id)s, %(authorized_by)s, %(authorized_at)s, %(scope_keys)s
)
ON CONFLICT (report, channel, content_revision) DO NOTHING
RETURNING batch_id
