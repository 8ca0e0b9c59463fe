"""What is shown to Prometheus: what this worker did, and how long which row of the ledger is overdue.

Every label value comes from a closed set; whatever else is met is shown as ``other``. A scrape reads what
loops have read before, and never the database.
"""
