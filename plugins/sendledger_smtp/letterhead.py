"""What stands on every message of a channel, and what a batch's own settings add to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sendledger.plugin import ContentFault, ContentHeld
from sendledger_smtp.destination import read_destination
from sendledger_smtp.dkim import DkimSigner
from sendledger_smtp.header import write_mailbox
from sendledger_smtp.list_headers import Unsubscribe, feedback_id
from sendledger_smtp.settings import SmtpSettings

INJECTION = "content.header-injection"
SETTING = "content.setting-invalid"
UNMET = "content.setting-unmet"

_CAMPAIGN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UNSUBSCRIBE = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Letterhead:
    """What the channel's settings put on every message."""

    sender: str
    sender_name: str
    message_id_domain: str
    unsubscribe: Unsubscribe | None = None
    feedback: str | None = None
    """The channel and the sender's own id, as the last fields of Feedback-ID."""
    signer: DkimSigner | None = None


def letterhead_of(settings: SmtpSettings, channel: str) -> Letterhead:
    """Return what *settings* put on every message of *channel*."""
    url, feedback, dkim = settings.unsubscribe_url, settings.feedback_id, settings.dkim
    return Letterhead(
        sender=settings.sender,
        sender_name=settings.sender_name,
        message_id_domain=settings.id_domain,
        unsubscribe=None
        if url is None
        else Unsubscribe(url=url, mailto=settings.unsubscribe_mailto),
        feedback=None if feedback is None else f"{channel}:{feedback}",
        signer=None if dkim is None else DkimSigner(dkim),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSettings:
    """What the content may say. Never the From address: it is the sender's identity."""

    from_name: str | None = None
    reply_to: str | None = None
    unsubscribe: bool = False
    campaign: str | None = None


SETTINGS = frozenset(LetterSettings.__slots__)


def read_settings(given: Mapping[str, str], letterhead: Letterhead) -> LetterSettings:
    """Return what the content says, checked against what the channel can do. Raises ``ContentFault``."""
    if unknown := sorted(given.keys() - SETTINGS):
        raise ContentFault(
            "content.setting-unknown",
            f"found {unknown[0]}; email knows {', '.join(sorted(SETTINGS))}",
        )
    return LetterSettings(
        from_name=given.get("from_name"),
        reply_to=_reply_to(given.get("reply_to")),
        unsubscribe=_unsubscribe(given.get("unsubscribe", "no"), letterhead),
        campaign=_campaign(given.get("campaign"), letterhead),
    )


def static_headers(settings: LetterSettings, letterhead: Letterhead) -> bytes:
    """Return the headers that all messages share. Raises ``ContentFault``."""
    name = letterhead.sender_name if settings.from_name is None else settings.from_name
    head = _mailbox("From", name, letterhead.sender)
    if settings.reply_to is not None:
        head += _mailbox("Reply-To", "", settings.reply_to)
    if letterhead.feedback is not None:
        head += feedback_id(settings.campaign, letterhead.feedback)
    # RFC 3834 section 5: made by a program and no answer to anything, so that vacation responders
    # keep quiet.
    return head + b"Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"


def _reply_to(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return read_destination(text).address
    except ValueError:
        raise ContentFault("content.reply-to", "reply_to is no plain address") from None


def _unsubscribe(text: str, letterhead: Letterhead) -> bool:
    if text not in _UNSUBSCRIBE:
        raise ContentFault(SETTING, "unsubscribe: expected yes or no")
    if _UNSUBSCRIBE[text] and letterhead.unsubscribe is None:
        raise ContentHeld(
            UNMET, "unsubscribe: yes needs unsubscribe_url in the settings of the channel"
        )
    return _UNSUBSCRIBE[text]


def _campaign(text: str | None, letterhead: Letterhead) -> str | None:
    if text is None:
        return None
    if _CAMPAIGN.fullmatch(text) is None:
        raise ContentFault(SETTING, "campaign: expected up to 64 letters, digits, dots, - and _")
    if letterhead.feedback is None:
        raise ContentHeld(UNMET, "campaign needs feedback_id in the settings of the channel")
    return text


def _mailbox(header: str, name: str, address: str) -> bytes:
    try:
        return write_mailbox(header, name, address)
    except ValueError as error:
        raise ContentFault(INJECTION, f"{header}: {error}") from None
