-- Takes intents, with ids of their own. What is wrong with a row is told by line and column, never quoted.
COPY sendledger.intent (
    intent_id, intent_key, recipient_fingerprint, destination_fingerprint, content_digest, domain_key,
    attachments, batch_id, eligible_at, not_after
)
FROM STDIN (FORMAT binary, ENCODING 'UTF8')
