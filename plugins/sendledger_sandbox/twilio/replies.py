"""Answers as Twilio gives them: JSON bodies, and errors with their code. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sendledger_sandbox.twilio.message import Message
from sendledger_sandbox.twilio.outcomes import status_of

JSON_TYPE = "application/json"

_TEXTS: Mapping[int, str] = {
    20003: "Authenticate",
    20009: "Resource not in a deletable state: {sid}",
    20404: "The requested resource {path} was not found",
    20429: "Too Many Requests",
    20500: "An internal server error has occurred",
    20503: "Service Unavailable",
    21211: "The 'To' number {to} is not a valid phone number.",
    21212: "The 'From' number {sender} is not a valid phone number, shortcode, or sender ID.",
    21408: "Permission to send an SMS has not been enabled for the region of {to}",
    21602: "Message body is required.",
    21603: "A 'From' or a 'MessagingServiceSid' is required.",
    21604: "A 'To' phone number is required.",
    21606: "The 'From' number {sender} cannot be a sender of this account.",
    21609: "The 'StatusCallback' URL is not a valid URL.",
    21610: "Attempt to send to unsubscribed recipient {to}",
    21611: "The queue of the 'From' number {sender} is full",
    21612: "There is no route from {sender} to {to}",
    21614: "'To' number {to} is not a mobile number",
    21617: "The message body is longer than 1600 characters.",
    21635: "'To' number {to} is a landline",
    30400: "The parameters are not valid",
    30409: "Message {sid} cannot be canceled",
}
"""What errors say. As with Twilio, numbers stand in the text: whoever logs it logs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP answer; *accepted* is the message that it tells of, if it is the answer to a create."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    accepted: Message | None = None


def answer(found: Mapping[str, Any]) -> Reply:
    """Return *found* as JSON."""
    return Reply(status=200, body=json.dumps(found).encode())


def created(message: Message) -> Reply:
    """Return the answer to the request that created *message*, as it is now."""
    return Reply(status=201, body=json.dumps(message.shown()).encode(), accepted=message)


def error(
    code: int,
    *,
    status: int | None = None,
    retry_after_s: int | None = None,
    about: Mapping[str, str] | None = None,
) -> Reply:
    """Return an error body; *about* fills its text in."""
    status = status_of(code) if status is None else status
    body = {
        "code": code,
        "message": _TEXTS.get(code, "scripted refusal").format_map(_Blank(about or {})),
        "more_info": f"https://www.twilio.com/docs/errors/{code}",
        "status": status,
    }
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return Reply(status=status, body=json.dumps(body).encode(), headers=headers)


class _Blank(dict[str, str]):
    """What an error text may name; empty where a request did not say it."""

    def __missing__(self, key: str) -> str:
        return ""
