"""The closed vocabularies that are stored, shown and counted. A new word is a type error where it is missing."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Status(StrEnum):
    """Where a delivery stands; the last three are terminal and never change."""

    PLANNED = "planned"
    SUBMITTING = "submitting"
    AMBIGUOUS = "ambiguous"
    SUBMITTED = "submitted"
    DEFERRED = "deferred"
    DELIVERED = "delivered"
    FAILED = "failed"
    SUPPRESSED = "suppressed"

    @property
    def terminal(self) -> bool:
        """Whether no evidence can move a delivery out of this status."""
        return self in TERMINAL


TERMINAL = frozenset({Status.DELIVERED, Status.FAILED, Status.SUPPRESSED})


class Awaits(StrEnum):
    """The next event a delivery expects; ``None`` on a non-terminal row means *settled*."""

    DISPATCH = "dispatch"
    RESULT = "result"
    EVIDENCE = "evidence"
    DECISION = "decision"
    RETRY = "retry"
    RELEASE = "release"


class Outcome(StrEnum):
    """What a piece of evidence says of its attempt.

    ``delivered`` goes beyond acceptance: the downstream network's own word that it arrived. No
    classification of a submission may claim it unless the channel declares that acceptance is arrival.
    """

    ACCEPTED = "accepted"
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    AMBIGUOUS = "ambiguous"
    DELIVERED = "delivered"


class Scope(StrEnum):
    """What a fault is about. Only ``recipient`` and ``message`` faults use up the budget."""

    RECIPIENT = "recipient"
    MESSAGE = "message"
    SENDER = "sender"
    CHANNEL = "channel"

    @property
    def ours(self) -> bool:
        """Whether the fault lies with the sender or the channel: it never burns a recipient."""
        return self in {Scope.SENDER, Scope.CHANNEL}


class Source(StrEnum):
    """Who brought an observation. ``channel`` is the answer to the submission itself; the rest came later."""

    CHANNEL = "channel"
    RECEIPT = "receipt"
    LOOK_UP = "look-up"
    FEED = "feed"
    LEASE = "lease"
    POLICY = "policy"
    OPERATOR = "operator"
    IMPORT = "import"


class Ruling(StrEnum):
    """What a policy or a person decided about a delivery; the ``decision`` of an observation."""

    RETRY = "retry"
    WAIT = "wait"
    HOLD = "hold"
    RELEASE = "release"
    ASK = "ask"
    CLOSE = "close"
    SUPPRESS = "suppress"
    EXPIRE = "expire"
    EXHAUST = "exhaust"
    FAULT = "fault"
    STOP = "stop"
    ERASE = "erase"


class Provenance(StrEnum):
    """Whether we may act on an intent (``native``) or only keep what others did with it."""

    NATIVE = "native"
    SHADOW = "shadow"
    IMPORTED = "imported"


class Lane(IntEnum):
    """Priority class; the lower number is claimed first."""

    TRANSACTIONAL = 0
    BULK = 1


class Suppress(StrEnum):
    """Whom a permanent refusal stops: nobody, the destination, or this sender to this destination."""

    NONE = "none"
    DESTINATION = "destination"
    PAIR = "pair"
