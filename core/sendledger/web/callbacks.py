"""The route of receipts: verified by token and signature, committed to the inbox, then acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sendledger.journal.inbox import new_receipt
from sendledger.ledger import tokens
from sendledger.ledger.tokens import Correlation, TokenRefused
from sendledger.logs import get_logger
from sendledger.metrics.labels import Learned
from sendledger.plugin.faults import PluginFault
from sendledger.plugin.port import ChannelPort
from sendledger.plugin.receipts import CallbackRefused, CallbackRequest
from sendledger.store.database import DatabaseAway, DatabaseError
from sendledger.store.inbox import NewReceipt
from sendledger.web.context import Reception
from sendledger.web.refusals import Refusals

BODY_BYTES_MAX = 65_536
BODY_WITHIN_S = 10.0
AGAIN_AFTER_S = "5"
MEDIA_TYPES = frozenset({"application/x-www-form-urlencoded", "application/json"})
REFUSAL_STATUSES = frozenset({400, 403})

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a callback is answered, and the words it is counted under."""

    status: int
    word: str
    reason: str | None = None


KEPT = Answer(status=204, word="kept")
EMPTY = Answer(status=204, word="empty")
NOT_FOUND = Answer(status=404, word="refused", reason="token")
AWAY = Answer(status=503, word="away")
FAILED = Answer(status=500, word="failed")


class Callbacks:
    """Answers ``POST /callbacks/CHANNEL/TOKEN``. Whatever is refused learns nothing from how it is refused."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._refusals = Refusals(reception.database)
        self._word = Learned()
        ports = reception.host.channels
        self._ports = {name: port for name, port in ports.items() if port.reads_callbacks}

    async def take_in(self, request: Request) -> Response:
        """Take one receipt in."""
        began = time.monotonic()
        channel = str(request.path_params["channel"])
        try:
            answer = await self._answer(request, channel)
        except ClientDisconnect:
            answer = Answer(status=400, word="refused", reason="disconnect")
        meters = self._reception.meters
        meters.answered(channel, answer.word, time.monotonic() - began)
        if answer.reason is not None:
            meters.refused(channel, answer.reason)
        headers = {"Retry-After": AGAIN_AFTER_S} if answer is AWAY else None
        return Response(status_code=answer.status, headers=headers)

    async def _answer(self, request: Request, channel: str) -> Answer:
        port, tied = self._ports.get(channel), self._tied(request)
        if port is None or tied is None:
            return NOT_FOUND
        if _media_type(request) not in MEDIA_TYPES:
            return Answer(status=415, word="refused", reason="content-type")
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                body = await _body(request)
        except TimeoutError:
            return Answer(status=408, word="refused", reason="slow")
        if body is None:
            return Answer(status=413, word="refused", reason="too-large")
        return await self._read(port, tied, self._asked(request, body))

    def _tied(self, request: Request) -> Correlation | None:
        try:
            return tokens.read(self._reception.token_keys, request.path_params["token"])
        except TokenRefused:
            return None

    def _asked(self, request: Request, body: bytes) -> CallbackRequest:
        path = request.scope["raw_path"].decode("ascii", "replace")
        query = request.scope["query_string"].decode("ascii", "replace")
        where = f"{self._reception.public_url}{path}"
        return CallbackRequest(
            token=request.path_params["token"],
            url=f"{where}?{query}" if query else where,
            headers={
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in request.scope["headers"]  # ASGI gives names in lower case
            },
            body=body,
        )

    async def _read(self, port: ChannelPort, tied: Correlation, asked: CallbackRequest) -> Answer:
        try:
            receipts = port.read_callback(asked)
        except CallbackRefused as refused:
            reason = self._word(refused.reason)
            await self._refusals.add(port.name, reason)
            status = refused.status if refused.status in REFUSAL_STATUSES else 403
            return Answer(status=status, word="refused", reason=reason)
        except PluginFault as fault:
            self._reception.host.faults.record(fault)
            return FAILED
        if not receipts:
            return EMPTY
        try:
            kept = [new_receipt(port.name, tied, receipt, asked.body) for receipt in receipts]
        except (TypeError, ValueError):  # facts that are no texts
            reason = "gave evidence whose facts cannot be stored"
            unfit = PluginFault(reason, plugin=port.name, hook="sendledger_read_callback")
            self._reception.host.faults.record(unfit)
            return FAILED
        return await self._keep(port, kept)

    async def _keep(self, port: ChannelPort, kept: Sequence[NewReceipt]) -> Answer:
        try:
            await self._reception.inbox.keep(kept)
        except (DatabaseAway, DatabaseError) as error:
            log.warning("receipt not kept, to come again", channel=port.name, exc_info=error)
            return AWAY
        await self._refusals.end(port.name)
        return KEPT


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _body(request: Request) -> bytes | None:
    """Read the body; None when it is longer than any receipt."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            return None
    return bytes(body)
