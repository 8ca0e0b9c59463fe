"""Ask Twilio what it knows of an attempt: by its SID, or else among the messages to the same number."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
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

PAGE_MAX = 1000
"""The most that one page holds; nobody is sent more in a day or two."""

SKEW = timedelta(minutes=2)
"""How far Twilio's clock and ours may be apart; its instants are whole seconds."""

NOT_FOUND = 404


class Failed(Exception):  # noqa: N818 - a state of affairs, not an error
    """The look-up could not be made; says nothing of the message."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class LookUps:
    """Looks attempts up, a few at a time."""

    def __init__(self, account: Account, settings: TwilioSettings) -> None:
        self._account = account
        self._settings = settings
        self._room = asyncio.Semaphore(settings.look_ups_max)

    async def look_up(self, attempts: Sequence[Asked]) -> list[Found]:
        """Return one answer for each of *attempts*, in their order."""
        return list(await asyncio.gather(*map(self._look_up_one, attempts)))

    async def _look_up_one(self, asked: Asked) -> Found:
        async with self._room:
            try:
                sids = (
                    await self._candidates(asked)
                    if asked.provider_reference is None
                    else [asked.provider_reference]
                )
                return Found(receipts=tuple([r for sid in sids for r in await self._read(sid)]))
            except Failed as failed:
                return Found(failed=failed.word)
            except (Unreached, Unanswered) as error:
                return Found(failed=error.fault)

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
        # Twilio compares days of GMT, whatever else is written there.
        since = (asked.opened_at - SKEW).date().isoformat()
        filters: dict[str, object] = {
            "To": asked.envelope.destination,
            "DateSent>": since,
            "PageSize": str(PAGE_MAX),
        }
        page = _object(await self._account.search(filters))
        messages = page.get("messages")
        if not isinstance(messages, list) or page.get("next_page_uri"):
            raise Failed("unreadable")
        return [each["sid"] for each in messages if self._may_be(each, asked)]

    def _may_be(self, message: Any, asked: Asked) -> bool:
        """Whether *message* may be what the attempt handed over: same people, same text, same time."""
        if not isinstance(message, Mapping) or not SID.fullmatch(str(message.get("sid"))):
            return False
        created_at = read_date(message.get("date_created"))
        return (
            message.get("to") == asked.envelope.destination
            and self._is_ours(message)
            and created_at is not None
            and asked.opened_at - SKEW <= created_at <= asked.result_due_at + SKEW
            and _same_text(str(message.get("body")), asked.envelope.message.decode())
        )

    def _is_ours(self, message: Mapping[str, Any]) -> bool:
        service = self._settings.messaging_service_sid
        if service is not None:
            return message.get("messaging_service_sid") == service
        return message.get("from") in self._settings.senders


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
