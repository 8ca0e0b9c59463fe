"""Read Twilio's answers: literal bytes in, evidence out. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from sendledger.plugin import Evidence

REQUEST = "request"
LOOK_UP = "look-up"
RECEIPT = "receipt"

SID = re.compile(r"[SM]M[0-9a-fA-F]{32}")
STATUS = re.compile(r"[a-z]{1,20}(?:[_-][a-z]{1,20}){0,3}")
ERROR_CODE = re.compile(r"[1-9][0-9]{4,5}")
"""Twilio's codes have five digits; what is shorter could be taken for an HTTP status."""

OK = 2
"""The first digit of a positive HTTP status (RFC 9110 section 15)."""

FAILURES = frozenset({"failed", "undelivered"})
"""Statuses that an error code belongs to."""

RETRY_AFTER_MAX = timedelta(days=1)


def read_object(octets: bytes) -> Mapping[str, Any]:
    """Return the JSON object in *octets*; nothing where there is none."""
    try:
        found = json.loads(octets)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def evidence_of(
    status: int, octets: bytes, retry_after: str | None = None, *, now: datetime
) -> Evidence:
    """Return the evidence of an answer to a submission.

    Twilio's own code says more than the HTTP status, and stands in its place where there is one. A
    positive answer without a message in it is none: the request may have been taken.
    """
    found = read_object(octets)
    if status // 100 == OK:
        return _accepted(status, octets, found)
    return Evidence(
        stage=REQUEST,
        handed_over=True,
        answered=True,
        literal=octets,
        reply_code=_code(found.get("code")) or status,
        retry_after=None if retry_after is None else read_retry_after(retry_after, now),
        facts={"http": str(status), "class": str(status // 100)},
    )


def _accepted(status: int, octets: bytes, found: Mapping[str, Any]) -> Evidence:
    sid = found.get("sid")
    if not isinstance(sid, str) or SID.fullmatch(sid) is None:
        return unanswered("protocol", octets)
    facts = facts_of(found.get("status"), found.get("error_code"))
    code = _code(facts.get("error")) if facts.get("status") in FAILURES else status
    return Evidence(
        stage=REQUEST,
        handed_over=True,
        answered=True,
        literal=octets,
        reply_code=code,
        provider_reference=sid,
        facts=facts | {"http": str(status), "class": str(OK)},
    )


def unanswered(fault: str, octets: bytes = b"") -> Evidence:
    """Return the evidence of a request that was handed over and whose answer is not to be had."""
    return Evidence(stage=REQUEST, handed_over=True, answered=False, literal=octets, fault=fault)


def not_begun(stage: str, fault: str) -> Evidence:
    """Return the evidence of a request of which nothing was written."""
    return Evidence(stage=stage, handed_over=False, answered=False, fault=fault)


def later_evidence(stage: str, sid: str, facts: Mapping[str, str], literal: bytes) -> Evidence:
    """Return the evidence of a receipt or a find; the error code counts where the status is a failure."""
    failed = facts.get("status") in FAILURES
    return Evidence(
        stage=stage,
        handed_over=True,
        answered=True,
        literal=literal,
        reply_code=_code(facts.get("error")) if failed else None,
        provider_reference=sid,
        facts=facts,
    )


def identity_of(sid: str, facts: Mapping[str, str]) -> str:
    """Return what makes two receipts of one attempt the same: message, status and error."""
    return f"{sid}/{facts['status']}/{facts.get('error', '')}"


def facts_of(status: object, error: object) -> dict[str, str]:
    """Return status and error code as rules read them; what is not shaped like one is left out."""
    facts = {}
    if isinstance(status, str) and STATUS.fullmatch(status):
        facts["status"] = status
    if code := _code(error):
        facts["error"] = str(code)
    return facts


def read_retry_after(text: str, now: datetime) -> timedelta | None:
    """Return how long to wait (RFC 9110 section 10.2.3), seconds or a date; never longer than a day."""
    if text.isascii() and text.isdigit() and len(text) < 10:  # noqa: PLR2004 - beyond any year
        wait = timedelta(seconds=int(text))
    elif (until := read_date(text)) is not None:
        wait = until - now
    else:
        return None
    return min(max(wait, timedelta(0)), RETRY_AFTER_MAX)


def read_date(text: object) -> datetime | None:
    """Return an instant as Twilio writes it (RFC 5322), None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _code(found: object) -> int | None:
    """Return an error code, written as a number or as text; None where it is not shaped like one."""
    text = str(found) if isinstance(found, int | str) else ""
    return int(text) if ERROR_CODE.fullmatch(text) else None
