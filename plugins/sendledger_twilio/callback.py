"""Read a status callback: who signed it, whose message it is about, and what it says. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import parse_qsl

from sendledger.plugin import CallbackRefused, CallbackRequest, Receipt
from sendledger_twilio.answer import (
    RECEIPT,
    SID,
    STATUS,
    facts_of,
    identity_of,
    later_evidence,
)
from sendledger_twilio.settings import TwilioSettings
from sendledger_twilio.signature import Parameters, is_issued, is_signed

FIELDS_MAX = 100
INBOUND = frozenset({"received", "receiving"})
"""Statuses of messages that come to us; they are no receipts of ours."""

ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"MessageSid": ("SmsSid", "SmsMessageSid"), "MessageStatus": ("SmsStatus",)}
)
"""Names of earlier versions that Twilio still sends, alone or beside the new ones."""

# A value that swallowed the names and values behind it has the same signature, but not this shape.
_SHAPES = {
    "MessageSid": SID,
    "MessageStatus": STATUS,
    "ErrorCode": re.compile(r"[0-9]{0,6}"),
    "ApiVersion": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
}


def read_callback(request: CallbackRequest, settings: TwilioSettings) -> Receipt:
    """Return what the request says of its attempt. Raises ``CallbackRefused``.

    Only what is signed with one of the account's secrets, over the address that we issued, is read at all.
    """
    form = _form(request)
    secrets = settings.signing_secrets
    if not is_issued(request.url, form) or not is_signed(
        request.url, request.headers, request.body, form, secrets=secrets
    ):
        raise CallbackRefused("not-signed")
    said = _said(form or _document(request.body))
    if said.get("AccountSid") != settings.account_sid:
        raise CallbackRefused("another-account")
    sid, status = _told(said)
    facts = facts_of(status, said.get("ErrorCode"))
    return Receipt(
        identity=identity_of(sid, facts),
        evidence=later_evidence(RECEIPT, sid, facts, request.body),
    )


def _form(request: CallbackRequest) -> Parameters:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return ()
    try:
        # Blank values are signed like all others.
        return parse_qsl(
            request.body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError:
        raise CallbackRefused("unreadable") from None


def _document(body: bytes) -> Parameters:
    try:
        found = json.loads(body, object_pairs_hook=list)
    except (ValueError, RecursionError):
        raise CallbackRefused("malformed", status=400) from None
    if not isinstance(found, list) or not all(isinstance(pair, tuple) for pair in found):
        raise CallbackRefused("malformed", status=400)
    return [(name, "" if value is None else str(value)) for name, value in found]


def _said(parameters: Parameters) -> Mapping[str, str]:
    said = dict(parameters)
    if len(said) < len(parameters):
        raise CallbackRefused("malformed", status=400)
    for name, others in ALIASES.items():
        spoken = {said[each] for each in (name, *others) if each in said}
        if len(spoken) > 1:
            raise CallbackRefused("malformed", status=400)
        if spoken:
            said[name] = spoken.pop()
    return said


def _told(said: Mapping[str, str]) -> tuple[str, str]:
    """Return message and status, where everything has the shape that it must have."""
    for name, shape in _SHAPES.items():
        if name in said and shape.fullmatch(said[name]) is None:
            raise CallbackRefused("malformed", status=400)
    sid, status = said.get("MessageSid"), said.get("MessageStatus")
    if sid is None or status is None:
        raise CallbackRefused("malformed", status=400)
    if status in INBOUND:
        raise CallbackRefused("inbound", status=400)
    return sid, status
