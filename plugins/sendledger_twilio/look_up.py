"""Ask Twilio what it knows of an attempt: by its SID, or else among the messages to the same number."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sendledger.plugin import Asked, Found, Receipt
from sendledger_twilio.account import Account
from sendledger_twilio.answer import (
    LOOK_UP,
    OK,
    SID,
    facts_of,
    identity_of,
    later_evidence,
    read_date,
    read_object,
)
from sendledger_twilio.client import Answer, Unanswered, Unreached
from sendledger_twilio.settings import TwilioSettings
from sendledger_twilio.typography import write_plainly

PAGES_MAX = 10
"""How far back is looked; nobody is sent a thousand messages while one is in doubt."""

SKEW = timedelta(minutes=2)
"""How far Twilio's clock and ours may be apart; its instants are whole seconds."""

WITHIN_S = 20.0
"""How long one call may take: what is not answered then says nothing, and takes no other's answer along."""

NOT_FOUND = 404
OURS = "/2010-04-01/"
"""How the path of a further page begins; credentials go to no other place that an answer names."""


class Failed(Exception):  # noqa: N818 - a state of affairs, not an error
    """The look-up could not be made; says nothing of the message."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A message of a list, as far as it can be recognised by."""

    sid: str
    created_at: datetime
    destination: str | None = field(repr=False)
    sender: str | None
    service: str | None
    text: str = field(repr=False)


class LookUps:
    """Looks attempts up, a few at a time."""

    def __init__(self, account: Account, settings: TwilioSettings) -> None:
        self._account = account
        self._settings = settings
        self._room = asyncio.Semaphore(settings.look_ups_max)

    async def look_up(self, attempts: Sequence[Asked]) -> list[Found]:
        """Return one answer for each of *attempts*, in their order."""
        ends = asyncio.get_running_loop().time() + WITHIN_S
        return list(await asyncio.gather(*(self._look_up_one(each, ends) for each in attempts)))

    async def _look_up_one(self, asked: Asked, ends: float) -> Found:
        try:
            async with asyncio.timeout_at(ends), self._room:
                sids = await self._sids(asked)
                return Found(receipts=tuple([r for sid in sids for r in await self._read(sid)]))
        except Failed as failed:
            return Found(failed=failed.word)
        except (Unreached, Unanswered) as error:
            return Found(failed=error.fault)
        except TimeoutError:
            return Found(failed="timeout")

    async def _sids(self, asked: Asked) -> list[str]:
        known = asked.provider_reference
        if known is not None and SID.fullmatch(known):
            return [known]
        return await self._candidates(asked)

    async def _read(self, sid: str) -> list[Receipt]:
        """Return what is known of one message, nothing where there is no such message (any more)."""
        answer = await self._account.fetch(sid)
        if answer.status == NOT_FOUND:
            return []
        found = _object(answer)
        facts = facts_of(found.get("status"), found.get("error_code"))
        if "status" not in facts or found.get("sid") != sid:
            raise Failed("unreadable")
        return [
            Receipt(
                identity=identity_of(sid, facts),
                evidence=later_evidence(LOOK_UP, sid, facts, answer.octets),
                occurred_at=read_date(found.get("date_updated")),
            )
        ]

    async def _candidates(self, asked: Asked) -> list[str]:
        # Each once: what is created meanwhile moves others to the next page, where they are listed again.
        found: dict[str, None] = {}
        page: str | None = None
        for _ in range(PAGES_MAX):
            answer = await self._account.search(asked.envelope.destination, page)
            shown = _object(answer)
            messages = [_listed(each) for each in _entries(shown)]
            found |= dict.fromkeys(each.sid for each in messages if self._may_be(each, asked))
            page = shown.get("next_page_uri")
            if page is None or any(each.created_at < asked.opened_at - SKEW for each in messages):
                return list(found)
            if not isinstance(page, str) or not page.startswith(OURS):
                break
        raise Failed("unreadable")

    def _may_be(self, message: Listed, asked: Asked) -> bool:
        """Whether *message* may be what the attempt handed over: same people, same text, same time."""
        return (
            message.destination == asked.envelope.destination
            and self._is_ours(message)
            and asked.opened_at - SKEW <= message.created_at <= asked.result_due_at + SKEW
            and _same_text(message.text, asked.envelope.message.decode())
        )

    def _is_ours(self, message: Listed) -> bool:
        service = self._settings.messaging_service_sid
        if service is not None:
            return message.service == service
        return message.sender in self._settings.senders


def _entries(page: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages = page.get("messages")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise Failed("unreadable")
    return messages


def _listed(message: Mapping[str, Any]) -> Listed:
    sid, created_at = str(message.get("sid")), read_date(message.get("date_created"))
    if SID.fullmatch(sid) is None or created_at is None:
        raise Failed("unreadable")
    return Listed(
        sid=sid,
        created_at=created_at,
        destination=message.get("to"),
        sender=message.get("from"),
        service=message.get("messaging_service_sid"),
        text=str(message.get("body")),
    )


def _same_text(one: str, other: str) -> bool:
    """Whether two bodies are one: an account may have typography written plainly, and ends cut off."""
    return write_plainly(one).strip() == write_plainly(other).strip()


def _object(answer: Answer) -> Mapping[str, Any]:
    if answer.status // 100 != OK:
        raise Failed(f"http-{answer.status}")
    found = read_object(answer.octets)
    if not found:
        raise Failed("unreadable")
    return found
