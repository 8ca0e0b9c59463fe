"""What the author of a channel tells the kit: how to build it, and how its peer is made to behave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from sendledger.plugin.channel import Attachment


class Reaction(StrEnum):
    """What the peer does with every submission from now on.

    The handoff is the write that could complete the submission: a final dot, a request. What is refused may
    be refused before or after it; where a connection ends or an answer is missing, it matters which.
    """

    ACCEPT = "accept"
    """Take it and say so, with a reference where the protocol has one."""

    REFUSE_FOR_NOW = "refuse-for-now"
    """Say that this recipient or message is welcome later."""

    REFUSE_ADDRESS = "refuse-address"
    """Say that there is no such destination, and never will be."""

    REFUSE_MESSAGE = "refuse-message"
    """Refuse this message for good, for a reason that is not its destination."""

    REFUSE_SENDER = "refuse-sender"
    """Refuse us for good: an account, an identity or a configuration that whoever is written to cannot help."""

    REFUSE_SESSION = "refuse-session"
    """Answer at the door that now is not the time, before anything is submitted."""

    CLOSE_EARLY = "close-early"
    """End the connection, without an answer, before the handoff."""

    LOSE_ANSWER = "lose-answer"
    """Take it whole, then end the connection without an answer."""

    GARBLE_ANSWER = "garble-answer"
    """Take it whole, then say what is no answer in the protocol."""

    STALL = "stall"
    """Take it whole, then say nothing and keep the connection open."""


class Fate(StrEnum):
    """What became of a message that was taken, as its provider tells it: in a receipt, or when it is asked."""

    UNDER_WAY = "under-way"
    """It goes its way, and nobody knows more yet."""

    ARRIVED = "arrived"
    """It reached whom it was for."""

    LOST = "lost"
    """It comes to nothing, for now or for good."""

    UNMAPPED = "unmapped"
    """A word that the channel cannot know: providers add some without notice."""


class Flaw(StrEnum):
    """What is wrong with a callback that must be refused."""

    UNSIGNED = "unsigned"
    """It carries no proof of who sent it."""

    ANOTHER_KEY = "another-key"
    """It is signed with a key that is not ours."""

    ANOTHER_ACCOUNT = "another-account"
    """It is genuine, but about an account that is not ours."""

    BROKEN_FORM = "broken-form"
    """It is genuine, but lacks what every receipt says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """What a provider posts: to the address that came with the message, and as it would be on the wire."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A message that reached the peer whole, whether or not it was answered.

    ``connection`` numbers the peer's connections; ``message`` is what the channel's writer wrote, with the
    protocol's own wrapping undone; ``reference`` what the peer answered, or would have, or None.
    """

    connection: int
    destinations: tuple[str, ...] = field(repr=False)
    message: bytes = field(repr=False)
    reference: str | None = None


class Peer(Protocol):
    """A next hop of the test's own, on loopback; it need not be the real one, but must speak as it does."""

    @property
    def taken(self) -> Sequence[Taken]:
        """What was taken, in order."""

    @property
    def said(self) -> bytes:
        """Everything the peer has answered so far; the answer to one submission is one piece of it."""

    @property
    def connections(self) -> int:
        """How many connections are open now."""

    def play(self, reaction: Reaction) -> None:
        """React so from now on, also on connections that are open; begin with ``ACCEPT``.

        A look-up is answered truly, or meets ``LOSE_ANSWER``, ``GARBLE_ANSWER`` and ``STALL`` as well.
        """

    async def leave(self) -> None:
        """Cut every connection and be unreachable: new ones are refused by the system."""

    async def come_back(self) -> None:
        """Be reachable again, in the same place."""


class ChannelRig(ABC):
    """A channel, its peer, and samples. Subclass it; what has a value here may be left as it is.

    A channel that declares receipts, a look-up or attachments needs the methods that are about them.
    """

    plugin: ClassVar[str]
    """The name of the entry point, which must be installed: an editable installation will do."""

    good: ClassVar[Sequence[str]]
    """At least two destinations as a person may write them, all different and all taken by the peer."""

    bad: ClassVar[Sequence[str]]
    """Texts that are no destination, each wrong in another way."""

    parts: ClassVar[Mapping[str, str] | None] = None
    """Template texts by part, with ``{{name}}`` and ``{{remark}}``; None is a sentence in every part."""

    content_settings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Settings that a batch file would give its content."""

    sessions_max: ClassVar[int | None] = None
    """How many sessions the channel of :meth:`settings` lends at once; None leaves it to core's slots."""

    unplayable: ClassVar[Mapping[Any, str]] = MappingProxyType({})
    """Reactions, fates and flaws that the protocol cannot show, with the reason; their tests are skipped."""

    unsearchable: ClassVar[str | None] = None
    """Why the provider cannot be asked about a message whose reference is not known, if it cannot."""

    @abstractmethod
    def peer(self) -> AbstractAsyncContextManager[Peer]:
        """Lend a peer that takes everything."""

    @abstractmethod
    def settings(self, peer: Any, *, answer_within: timedelta) -> Mapping[str, Any]:
        """Return settings, as a file would give them, for a channel that hands over to *peer*.

        Its patience with each answer is *answer_within*; where the channel has no such setting, the
        reaction ``STALL`` is unplayable.
        """

    @abstractmethod
    def structure(self, message: bytes) -> object:
        """Return what a reader of the protocol sees in *message* besides its texts, to be compared.

        Commands, the names of headers and fields, how many parts: all that a text must not change.
        """

    def timeless(self, message: bytes) -> bytes:
        """Return *message* without what the time of writing put there."""
        return message

    # --- of a channel with receipts ------------------------------------------------------------------

    def callback(self, peer: Any, taken: Taken, fate: Fate, flaw: Flaw | None = None) -> Callback:
        """Return what the provider posts when it tells *fate* of *taken*, or one that has a *flaw*.

        Told twice, it is the same event. The address is the one that *peer* was given with the message,
        and the signature, as the provider makes it, covers that.
        """
        raise NotImplementedError("the rig of a channel with receipts needs callback")

    # --- of a channel with a look-up -----------------------------------------------------------------

    def settle(self, peer: Any, taken: Taken, fate: Fate) -> None:
        """Let the provider answer *fate* from now on when it is asked about *taken*; first ``UNDER_WAY``."""
        raise NotImplementedError("the rig of a channel with a look-up needs settle")

    def forget(self, peer: Any, taken: Taken) -> None:
        """Let the provider know nothing of *taken* any more."""
        raise NotImplementedError("the rig of a channel with a look-up needs forget")

    # --- of a channel with attachments ---------------------------------------------------------------

    def enclosed(self, message: bytes) -> Sequence[Attachment]:
        """Return the files that a reader finds in *message*, in order."""
        raise NotImplementedError("the rig of a channel with attachments needs enclosed")
