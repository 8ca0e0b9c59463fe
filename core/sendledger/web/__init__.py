"""HTTP in: receipts that providers report, and the question whether this process is well."""
