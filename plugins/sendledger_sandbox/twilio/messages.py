"""All messages of an account, found by identifier or listed in pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from sendledger_sandbox.twilio.message import API_VERSION, Message

PAGE_SIZE, PAGE_SIZE_MAX = 50, 1000


class QueryFault(ValueError):  # noqa: N818 - a fault of the request, not of the program
    """A parameter of a list cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which messages a list is about; days are those of GMT on which a message was sent.

    A message that has not been sent has no day: no filter by day finds it.
    """

    to: str | None = None
    sender: str | None = None
    on: date | None = None
    until: date | None = None
    since: date | None = None

    def wants(self, message: Message) -> bool:
        """Whether *message* is one of them."""
        if self.sender is not None and message.sender != self.sender:
            return False
        if self.on is self.until is self.since is None:
            return True
        if message.sent_at is None:
            return False
        day = message.sent_at.date()
        return (
            (self.on is None or day == self.on)
            and (self.until is None or day <= self.until)
            and (self.since is None or day >= self.since)
        )


@dataclass(slots=True)
class Messages:
    """Every message that was accepted and not deleted, in the order of acceptance."""

    _by_sid: dict[str, Message] = field(default_factory=dict)
    _by_number: dict[str, dict[str, Message]] = field(default_factory=dict)

    def add(self, message: Message) -> None:
        """Keep one more."""
        self._by_sid[message.sid] = message
        self._by_number.setdefault(message.request.to, {})[message.sid] = message

    def get(self, sid: str) -> Message | None:
        """Return the one of that identifier."""
        return self._by_sid.get(sid)

    def remove(self, message: Message) -> None:
        """Forget one."""
        del self._by_sid[message.sid]
        del self._by_number[message.request.to][message.sid]

    def newest(self, wanted: Filter) -> Iterator[Message]:
        """Return those that are wanted, the newest first."""
        found = self._by_sid if wanted.to is None else self._by_number.get(wanted.to, {})
        return (message for message in reversed(found.values()) if wanted.wants(message))

    def __len__(self) -> int:
        return len(self._by_sid)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._by_sid.values())


def page(messages: Messages, account_sid: str, query: Mapping[str, str]) -> Mapping[str, Any]:
    """Return one page of a list, as JSON has it. Raises :class:`QueryFault`.

    The page token names the last message that was shown: what is accepted meanwhile moves nothing.
    """
    wanted, size, number = _filter(query), _size(query), _number(query)
    shown, more = _slice(messages.newest(wanted), size, after=query.get("PageToken"))
    uri = f"/{API_VERSION}/Accounts/{account_sid}/Messages.json"
    kept = {name: value for name, value in query.items() if name not in {"Page", "PageToken"}}

    def link(page_number: int, token: str | None) -> str:
        asked = {**kept, "PageSize": size, "Page": page_number}
        return f"{uri}?{urlencode(asked if token is None else {**asked, 'PageToken': token})}"

    first = number * size
    return {
        "first_page_uri": link(0, None),
        "end": first + max(len(shown) - 1, 0),
        "start": first,
        "messages": [message.shown() for message in shown],
        "next_page_uri": link(number + 1, f"PA{shown[-1].sid}") if more else None,
        "page": number,
        "page_size": size,
        "previous_page_uri": None,
        "uri": link(number, query.get("PageToken")),
    }


def _slice(found: Iterator[Message], size: int, *, after: str | None) -> tuple[list[Message], bool]:
    if after is not None and not any(f"PA{message.sid}" == after for message in found):
        raise QueryFault("PageToken")
    shown = list(islice(found, size))
    return shown, next(found, None) is not None


def _filter(query: Mapping[str, str]) -> Filter:
    return Filter(
        to=query.get("To"),
        sender=query.get("From"),
        on=_day(query, "DateSent"),
        until=_day(query, "DateSent<"),
        since=_day(query, "DateSent>"),
    )


def _day(query: Mapping[str, str], name: str) -> date | None:
    """Return a day of GMT; the SDK writes a whole instant, of which the API sees the day."""
    if name not in query:
        return None
    try:
        return datetime.fromisoformat(query[name]).date()
    except ValueError:
        raise QueryFault(name) from None


def _size(query: Mapping[str, str]) -> int:
    size = _whole(query, "PageSize", PAGE_SIZE)
    if not 1 <= size <= PAGE_SIZE_MAX:
        raise QueryFault("PageSize")
    return size


def _number(query: Mapping[str, str]) -> int:
    return _whole(query, "Page", 0)


def _whole(query: Mapping[str, str], name: str, unset: int) -> int:
    text = query.get(name, str(unset))
    if not (text.isascii() and text.isdigit()):
        raise QueryFault(name)
    return int(text)
