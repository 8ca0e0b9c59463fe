-- Takes the side rows of intents. What is wrong with a row is told by line and column, never quoted.
COPY sendledger.recipient_secret (intent_id, recipient_id, destination, variables, attachments)
FROM STDIN (FORMAT binary, ENCODING 'UTF8')
