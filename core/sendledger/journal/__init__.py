"""The only ways the ledger is written: plan, open, record, decide, resolve.

Every change is one short transaction: lock the delivery rows in key order, fold what is stored, append,
fold again, write the projection. Nothing here touches a network beyond Postgres.
"""
