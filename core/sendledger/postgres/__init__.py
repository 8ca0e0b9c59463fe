"""The embedded server: PostgreSQL beside Sendledger, for installations without a database of their own."""

from sendledger.postgres.embedded import Embedded, ServerStatus, StopResult
from sendledger.postgres.errors import PostgresError

__all__ = ["Embedded", "PostgresError", "ServerStatus", "StopResult"]
