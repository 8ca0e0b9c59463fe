"""Whether this process lives, and whether it can do its work."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sendledger.store.database import DatabaseAway, DatabaseError
from sendledger.store.schema import head_revision
from sendledger.web.context import Reception

ANSWER_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What was found. ``hears`` is None where nobody listens for new work."""

    database: bool
    schema: bool
    hears: bool | None

    @property
    def status(self) -> str:
        """``degraded`` is slower, not unwell: polling finds the work that nobody hears of."""
        if not (self.database and self.schema):
            return "unready"
        return "degraded" if self.hears is False else "ready"


async def live(_: Request) -> Response:
    """Say that the process is up, whatever the database does."""
    return JSONResponse({"status": "live"})


class Readiness:
    """Answers whether receipts can be taken in now: 200, or 503 while they cannot."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._revision = head_revision()

    async def look(self, _: Request) -> Response:
        """Ask the database."""
        found = await self._found()
        shown = {"database": found.database, "schema": found.schema, "listening": found.hears}
        code = 503 if found.status == "unready" else 200
        return JSONResponse({"status": found.status, **shown}, status_code=code)

    async def _found(self) -> Health:
        hears = self._reception.hears()
        try:
            written = await self._reception.database.written_for(within_s=ANSWER_WITHIN_S)
        except DatabaseAway:
            return Health(database=False, schema=False, hears=hears)
        except DatabaseError:  # no schema of ours
            written = None
        return Health(database=True, schema=written == self._revision, hears=hears)
