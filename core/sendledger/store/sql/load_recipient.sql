-- Returns the erasable side row of one intent, for a person who asked who it is.
SELECT s.recipient_id, s.destination, s.attachments AS attachment_places
FROM sendledger.recipient_secret AS s
WHERE s.intent_id = %(intent_id)s
