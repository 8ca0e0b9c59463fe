"""A finding: an observation on its way into the ledger, before it has its place (seq)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.rows import Observation
from sendledger.ledger.words import Outcome, Ruling, Scope, Source, Suppress

_TEXTS = ("rule", "identity", "cause", "stage", "enhanced_code", "provider_reference", "actor")
_texts = attrgetter(*_TEXTS)
_INTEGERS = range(-(2**31), 2**31)
IDENTITY_LENGTH_MAX = 200
REFERENCE_LENGTH_MAX = 500
"""What an index takes of any script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What will be stored. ``identity`` with ``source`` makes a repeat recognisable within an intent.

    ``cause`` groups held rows under what must be mended, so that they are released together.
    ``received_at`` is None for what comes in with its recording.
    ``literal`` goes to the erasable side row; everything else says nothing readable of a person.
    """

    source: Source
    rule: str
    identity: str
    attempt: int | None = None
    outcome: Outcome | None = None
    scope: Scope | None = None
    later: bool = False
    spent: bool = True
    opt_out: bool = False
    suppress: Suppress = Suppress.NONE
    ruling: Ruling | None = None
    due_at: datetime | None = None
    authorises: int | None = None
    cause: str | None = None
    stage: str | None = None
    reply_code: int | None = None
    enhanced_code: str | None = None
    provider_reference: str | None = None
    occurred_at: datetime | None = None
    received_at: datetime | None = None
    actor: str | None = None
    literal: bytes = field(default=b"", repr=False)

    def at(self, seq: int) -> Observation:
        """Return what the fold sees of it once it stands at *seq*."""
        return Observation(
            seq=seq,
            source=self.source,
            rule=self.rule,
            attempt=self.attempt,
            outcome=self.outcome,
            scope=self.scope,
            later=self.later,
            spent=self.spent,
            opt_out=self.opt_out,
            ruling=self.ruling,
            due_at=self.due_at,
            authorises=self.authorises,
        )


def result_of(number: int, evidence: Evidence, meaning: Classification) -> Finding:
    """Return the finding that stores the answer to attempt *number*."""
    return _found(number, evidence, meaning, source=Source.CHANNEL, identity=f"result/{number}")


def later_of(
    number: int, evidence: Evidence, meaning: Classification, *, source: Source, identity: str
) -> Finding:
    """Return the finding that stores what a receipt or a look-up told of attempt *number*.

    *identity* is the event's within the intent: :func:`event_identity`.
    """
    found = _found(number, evidence, meaning, source=source, identity=identity)
    return replace(found, later=True)


def event_identity(number: int, identity: str) -> str:
    """Return what an event of attempt *number* is called within its intent.

    A long identity stands as its digest, for it is in an index.
    """
    text = _storable_text(identity) or ""
    if len(text) > IDENTITY_LENGTH_MAX:
        text = hashlib.sha256(text.encode()).hexdigest()
    return f"{number}/{text}"


def absent(number: int) -> Finding:
    """Return the finding that attempt *number* was never taken: the channel declares absence as proof."""
    return Finding(
        source=Source.LOOK_UP,
        rule="look-up.absent",
        identity=f"{number}/absent",
        attempt=number,
        outcome=Outcome.TRANSIENT,
        scope=Scope.CHANNEL,
        spent=False,
    )


def _found(
    number: int, evidence: Evidence, meaning: Classification, *, source: Source, identity: str
) -> Finding:
    refused = meaning.outcome is Outcome.TRANSIENT or meaning.outcome is Outcome.PERMANENT
    return Finding(
        source=source,
        rule=meaning.rule,
        identity=identity,
        attempt=number,
        outcome=meaning.outcome,
        scope=meaning.scope if refused else None,
        spent=not (refused and meaning.scope.ours),
        opt_out=refused and meaning.opt_out,
        suppress=meaning.suppress if refused else Suppress.NONE,
        stage=_place(evidence),
        reply_code=evidence.reply_code,
        enhanced_code=evidence.enhanced_code,
        provider_reference=evidence.provider_reference,
        literal=evidence.literal,
    )


def _place(evidence: Evidence) -> str:
    """Return the stage, how it broke, and the relay or route that a channel with several names."""
    place = evidence.stage if evidence.fault is None else f"{evidence.stage}/{evidence.fault}"
    relay = evidence.facts.get("relay") if evidence.facts else None
    return place if relay is None else f"{place}/{relay}"


def storable(finding: Finding) -> Finding:
    """Return *finding* as a ledger can hold it: evidence is never refused for how it is written.

    Postgres text holds neither NUL nor half of a surrogate pair; such a character becomes U+FFFD or
    ``?``. A reply code beyond 32 bits is left out, and a provider reference that is too long for an index;
    a rule without a name gets one. The literal stays as it came.
    """
    clean: dict[str, Any] = {}
    texts = _texts(finding)
    if not _plain("".join([text for text in texts if text])):
        clean = {name: _storable_text(text) for name, text in zip(_TEXTS, texts, strict=True)}
    if not finding.rule:
        clean["rule"] = "unnamed"
    # None is looked for in a range one number after the other: hours, not an answer.
    if finding.reply_code is not None and finding.reply_code not in _INTEGERS:
        clean["reply_code"] = None
    if len(finding.provider_reference or "") > REFERENCE_LENGTH_MAX:
        clean["provider_reference"] = None
    return replace(finding, **clean) if clean else finding


def _storable_text(text: str | None) -> str | None:
    if text is None or _plain(text):
        return text
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _plain(text: str) -> bool:
    return text.isascii() and "\0" not in text


def lost_in_lease(number: int) -> Finding:
    """Return the finding for an attempt whose worker went away: unknown, never a resend."""
    return Finding(
        source=Source.LEASE,
        rule="lease.expired",
        identity=f"lease/{number}",
        attempt=number,
        outcome=Outcome.AMBIGUOUS,
    )
