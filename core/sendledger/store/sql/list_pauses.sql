-- Lists what is paused now.
SELECT
    p.scope_key, p.rule, p.began_at, p.began_by, p.configuration, p.stage, p.reply_code, p.literal
FROM sendledger.pause AS p
WHERE p.ended_at IS NULL
ORDER BY p.began_at
