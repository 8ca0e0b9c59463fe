-- Takes the deliveries of intents. What is wrong with a row is told by line and column, never quoted.
COPY sendledger.delivery (intent_id, batch_id, due_at, wake_at, lane, channel, status, awaits)
FROM STDIN (FORMAT binary, ENCODING 'UTF8')
