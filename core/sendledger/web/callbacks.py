"""The route of receipts: verified by token and signature, committed to the inbox, then acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send

from sendledger.journal.inbox import new_receipt
from sendledger.ledger import tokens
from sendledger.ledger.tokens import Correlation, TokenRefused
from sendledger.logs import get_logger
from sendledger.metrics.labels import Learned
from sendledger.plugin.faults import PluginFault
from sendledger.plugin.port import ChannelPort
from sendledger.plugin.receipts import CALLBACK_ROUTE, CallbackRefused, CallbackRequest
from sendledger.store.database import DatabaseAway, DatabaseError
from sendledger.store.inbox import NewReceipt
from sendledger.web.access import log_request
from sendledger.web.context import Reception
from sendledger.web.refusals import Refusals

BODY_BYTES_MAX = 65_536
BODY_WITHIN_S = 10.0
MEDIA_TYPES = frozenset({"application/x-www-form-urlencoded", "application/json"})
REFUSAL_STATUSES = frozenset({400, 403})

log = get_logger(__name__)

Headers = Sequence[tuple[bytes, bytes]]
BARE: Headers = ((b"content-length", b"0"),)
END: Message = {"type": "http.response.body"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a callback is answered, and the words it is counted under."""

    status: int
    word: str
    reason: str | None = None
    headers: Headers = BARE


KEPT = Answer(status=204, word="kept", headers=())
EMPTY = Answer(status=204, word="empty", headers=())
NOT_FOUND = Answer(status=404, word="refused", reason="token")
GONE = Answer(status=400, word="refused", reason="disconnect")
SLOW = Answer(status=408, word="refused", reason="slow")
TOO_LARGE = Answer(status=413, word="refused", reason="too-large")
OTHER_TYPE = Answer(status=415, word="refused", reason="content-type")
AWAY = Answer(status=503, word="away", headers=(*BARE, (b"retry-after", b"5")))
FAILED = Answer(status=500, word="failed")


class _Gone(Exception):  # noqa: N818 - a state, not a slip
    """Strictly private: the sender went away before its request was whole."""


class Callbacks:
    """Answers ``POST /callbacks/CHANNEL/TOKEN``. Whatever is refused learns nothing from how it is refused.

    Written on plain ASGI: a request and a response object cost as much as verifying a receipt.
    """

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._refusals = Refusals(reception.database)
        self._word = Learned()
        ports = reception.host.channels
        self._ports = {name: port for name, port in ports.items() if port.reads_callbacks}

    async def take_in(
        self, scope: Scope, receive: Receive, send: Send, place: tuple[str, str]
    ) -> None:
        """Take one receipt in; *place* is channel and token."""
        began = time.monotonic()
        channel, token = place
        try:
            answer = await self._answer(scope, receive, channel, token)
        except Exception:  # the sender comes again, and somebody sees why
            log.exception("callback failed", route=CALLBACK_ROUTE)
            answer = FAILED
        took_s = time.monotonic() - began
        meters = self._reception.meters
        meters.answered(channel, answer.word, took_s)
        if answer.reason is not None:
            meters.refused(channel, answer.reason)
        log_request(CALLBACK_ROUTE, answer.status, took_s)
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        await send(END)

    async def _answer(self, scope: Scope, receive: Receive, channel: str, token: str) -> Answer:
        port, tied = self._ports.get(channel), self._tied(token)
        if port is None or tied is None:
            return NOT_FOUND
        # ASGI gives names in lower case.
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if _media_type(headers) not in MEDIA_TYPES:
            return OTHER_TYPE
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                body = await _body(receive)
        except TimeoutError:
            return SLOW
        except _Gone:
            return GONE
        if body is None:
            return TOO_LARGE
        asked = CallbackRequest(token=token, url=self._url(scope), headers=headers, body=body)
        return await self._read(port, tied, asked)

    def _tied(self, token: str) -> Correlation | None:
        try:
            return tokens.read(self._reception.token_keys, token)
        except TokenRefused:
            return None

    def _url(self, scope: Scope) -> str:
        path = scope["raw_path"].decode("ascii", "replace")
        query = scope["query_string"].decode("ascii", "replace")
        where = f"{self._reception.public_url}{path}"
        return f"{where}?{query}" if query else where

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


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


async def _body(receive: Receive) -> bytes | None:
    """Read the body; None when it is longer than any receipt. Raises :class:`_Gone`."""
    parts: list[bytes] = []
    left, more = BODY_BYTES_MAX, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        parts.append(message.get("body", b""))
        left -= len(parts[-1])
        if left < 0:
            return None
        more = message.get("more_body", False)
    return b"".join(parts)
