"""The API: a request as it was read, and the answer to it. Nothing here knows HTTP on the wire."""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPMethod

from sendledger_sandbox.twilio.courses import Courses
from sendledger_sandbox.twilio.forms import FormRefused, read_form
from sendledger_sandbox.twilio.journal import Journal
from sendledger_sandbox.twilio.message import API_VERSION, Message, Request
from sendledger_sandbox.twilio.messages import Messages, QueryFault, page
from sendledger_sandbox.twilio.outcomes import Course, Oddity, Phase, course_in
from sendledger_sandbox.twilio.provider import Provider, Where, where_of
from sendledger_sandbox.twilio.replies import Reply, answer, created, error
from sendledger_sandbox.twilio.tasks import Tasks

_ROUTE = re.compile(
    rf"/{API_VERSION}/Accounts/(?P<account>AC[0-9a-fA-F]{{32}})/Messages(?:/(?P<sid>[^/]+))?\.json"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to the API, as read from the wire."""

    method: str
    path: str
    query: Mapping[str, str] = field(repr=False)
    form: Mapping[str, str] = field(repr=False)
    authorization: str | None = field(repr=False)
    connection: int


class Api:
    """Answers calls about the messages of one account."""

    def __init__(self, provider: Provider, journal: Journal, courses: Courses) -> None:
        self._provider, self._journal, self._courses = provider, journal, courses
        self.messages = Messages()
        self.accepting = Tasks()

    async def answer(self, call: Call) -> Reply:
        """Answer one call. Raises :class:`Dropped` where the script gives no answer."""
        if not self._knows(call.authorization):
            return error(20003)
        route = _ROUTE.fullmatch(call.path)
        if route is None or route["account"] != self._provider.account_sid:
            return error(20404, about={"path": call.path})
        match call.method, route["sid"]:
            case HTTPMethod.POST, None:
                return await self._limited_create(call)
            case HTTPMethod.GET, None:
                return await self._list(call)
            case HTTPMethod.GET | HTTPMethod.POST | HTTPMethod.DELETE, sid if sid is not None:
                return await self._one(call, sid)
            case _:
                return error(20004, status=405)

    def _knows(self, authorization: str | None) -> bool:
        provider, given = self._provider, (authorization or "").encode()
        accounts = {provider.account_sid: provider.auth_token, **provider.api_keys}
        known = (b64encode(f"{user}:{password}".encode()) for user, password in accounts.items())
        return any(hmac.compare_digest(given, b"Basic " + one) for one in known)

    # --- create ----------------------------------------------------------------------------------

    async def _limited_create(self, call: Call) -> Reply:
        limit = self._provider.concurrency_max
        if limit is not None and self._provider.busy >= limit:
            return error(20429, retry_after_s=1)
        self._provider.busy += 1
        try:
            return await self._create(call)
        finally:
            self._provider.busy -= 1

    async def _create(self, call: Call) -> Reply:
        about = {"to": call.form.get("To", ""), "sender": call.form.get("From", "")}
        try:
            request = read_form(call.form, self._provider)
        except FormRefused as refused:
            return error(refused.code, about=about)
        where = Where(connection=call.connection, to=request.to, token=request.token)
        if (scripted := await self._provider.reach(Phase.REQUEST, where)) is not None:
            return scripted
        course = course_in(self._provider.asked_by(request.to), self._provider.everywhere)
        if Oddity.TWICE_ACCEPTED in course.oddities:
            await self._accept(request, course)
        if (reply := await self._accept(request, course)).accepted is None:
            return reply
        where = where_of(reply.accepted, connection=call.connection)
        return await self._provider.reach(Phase.ACCEPTED, where) or reply

    async def _accept(self, request: Request, course: Course) -> Reply:
        """Accept a message, and wait for its course if that comes before the answer."""
        accepting = self.accepting.begin(self._journalled(request, course))
        # A peer that hangs up takes nothing back: what is in the journal is also in the account.
        try:
            reply, running = await asyncio.shield(accepting)
        except OSError:
            return error(20500)
        if Oddity.EARLY in course.oddities:
            await asyncio.wait([running])
        return reply

    async def _journalled(
        self, request: Request, course: Course
    ) -> tuple[Reply, asyncio.Task[None]]:
        message = Message(
            sid=f"SM{secrets.token_hex(16)}",
            account_sid=self._provider.account_sid,
            request=request,
            created_at=datetime.now(UTC),
            sender=request.sender,
            status=_first_status(request),
            body=request.body,
        )
        await self._journal.accept(message)
        self.messages.add(message)
        self._provider.accepted += 1
        return created(message), self._courses.begin(message, course)

    # --- look up, change, delete -------------------------------------------------------------------

    async def _list(self, call: Call) -> Reply:
        where = Where(connection=call.connection, to=call.query.get("To"))
        if (scripted := await self._look_up(where)) is not None:
            return scripted
        try:
            return answer(page(self.messages, self._provider.account_sid, call.query))
        except QueryFault:
            return error(20001)

    async def _one(self, call: Call, sid: str) -> Reply:
        message = self.messages.get(sid)
        if call.method == HTTPMethod.GET:
            known = where_of(message) if message else Where(sid=sid)
            if (scripted := await self._look_up(known)) is not None:
                return scripted
        if message is None:
            return error(20404, about={"path": call.path})
        match call.method:
            case HTTPMethod.GET:
                return answer(message.shown())
            case HTTPMethod.POST:
                return _change(message, call.form)
            case _:
                return self._delete(message)

    async def _look_up(self, where: Where) -> Reply | None:
        self._provider.look_ups += 1
        return await self._provider.reach(Phase.LOOK_UP, where)

    def _delete(self, message: Message) -> Reply:
        if not message.over:
            return error(20009, status=409, about={"sid": message.sid})
        self.messages.remove(message)
        return Reply(status=204)


def _change(message: Message, form: Mapping[str, str]) -> Reply:
    """Redact the body, or cancel what is scheduled."""
    about = {"sid": message.sid}
    match dict(form):
        case {"Body": ""} if len(form) == 1:
            message.body = ""
        case {"Status": "canceled"} if len(form) == 1:
            if message.status != "scheduled":
                return error(30409, status=409, about=about)
            message.move("canceled", None, datetime.now(UTC))
        case _:
            return error(30400)
    return answer(message.shown())


def _first_status(request: Request) -> str:
    if request.send_at is not None:
        return "scheduled"
    return "queued" if request.service_sid is None else "accepted"
