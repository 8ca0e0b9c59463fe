-- Counts all deliveries by channel and status. Scans delivery: for a cache, never for a scrape.
SELECT d.channel, d.status, count(*) AS rows
FROM sendledger.delivery AS d
GROUP BY d.channel, d.status
