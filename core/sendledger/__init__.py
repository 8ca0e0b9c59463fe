"""Sendledger: what was sent to whom, on whose authority, and what is known about it.

``ledger`` holds the ideas and touches nothing; every other room looks down on it.
"""

__version__ = "0.1.0"
