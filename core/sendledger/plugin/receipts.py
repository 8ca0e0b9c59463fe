"""Evidence that does not answer a submission: receipts that come to us, and look-ups that we make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sendledger.ledger.evidence import Evidence
from sendledger.plugin.channel import Envelope

CALLBACK_ROUTE = "/callbacks/{channel}/{token}"


def callback_url(public_url: str, channel: str, token: str) -> str:
    """Return where receipts of the attempt that *token* names are to be sent."""
    return public_url + CALLBACK_ROUTE.format(channel=channel, token=token)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackRequest:
    """A receipt as it came in over HTTP, and the token of the path it came to, already verified.

    ``url`` is the address we issued: the configured public one, with the path and query as received,
    whatever Host said. Header names are in lower case; ``body`` is what was sent, byte for byte.
    """

    token: str = field(repr=False)
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class CallbackRefused(Exception):  # noqa: N818 - a refusal is the word for it
    """The request is no receipt of ours. ``reason`` is a closed word that is counted, never shown outside.

    ``status`` is what is answered: 403 for who sent it, 400 for what it says. Nothing of it is stored.
    """

    def __init__(self, reason: str, *, status: int = 403) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One piece of evidence about one attempt, and what makes it recognisable when it comes again.

    ``identity`` is the event identity: the same for every repeat, unique per intent and source.
    ``evidence`` is classified as a submission's is; its ``stage`` says where it comes from (receipt,
    look-up). Whatever it says, it proves that the attempt was accepted, unless ``evidence.answered``
    is false: a look-up that found a message may still not know what became of it, but it was taken.
    """

    identity: str
    evidence: Evidence
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An attempt whose fate is asked of the provider, and all that could recognise it there.

    ``envelope`` is what was handed over, written again. ``provider_reference`` is known where an answer
    was read. The handoff lay between ``opened_at`` and ``result_due_at``, both by our clock.
    """

    envelope: Envelope
    provider_reference: str | None
    opened_at: datetime
    result_due_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look-up brought for one attempt: no candidate, one, or several that cannot be told apart.

    ``receipts`` of more than one candidate are never folded. ``failed`` is a closed word for a look-up
    that could not be made (the provider is away, refuses us): it says nothing, not even none.
    """

    receipts: tuple[Receipt, ...] = ()
    failed: str | None = None
