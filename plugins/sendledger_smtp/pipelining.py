"""MAIL, RCPT and DATA in one write (RFC 2920): which reply is whose, and which relay is spoken to so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta

from sendledger_smtp.reply import Reply
from sendledger_smtp.wire import CLOSING, WireBroken

OK, GO_ON, REFUSED = 2, 3, 4
"""First digits: done, go on with the message, and from here on refused (RFC 5321 section 4.2.1)."""

STAGES = ("mail", "rcpt", "data")

DISTRUST = timedelta(hours=1)
"""How long a relay that lost count is asked step by step before its offer is believed again."""


class Group:
    """The replies to one group, in the order they come. ``refusal`` is the first that ends the transaction.

    ``stage`` is whose that is; without a refusal, the stage whose reply comes next or came last.
    """

    __slots__ = ("_replies", "refusal", "stage")

    def __init__(self) -> None:
        self._replies: list[Reply] = []
        self.refusal: Reply | None = None
        self.stage = STAGES[0]

    @property
    def awaits(self) -> str | None:
        """The stage whose reply comes next; None when there is none to come."""
        return None if self.closing or self.whole else STAGES[len(self._replies)]

    @property
    def begun(self) -> bool:
        """Whether anything was answered."""
        return bool(self._replies)

    @property
    def whole(self) -> bool:
        """Whether each command was answered."""
        return len(self._replies) == len(STAGES)

    @property
    def closing(self) -> bool:
        """Whether the last reply was a goodbye: none comes behind it."""
        return self.begun and self._replies[-1].code == CLOSING

    @property
    def wants_message(self) -> bool:
        """Whether the server is ready for a message, whatever became of sender and recipient."""
        return self.whole and self._replies[-1].digit == GO_ON

    @property
    def literal(self) -> bytes:
        """Every reply as read."""
        return b"".join([reply.literal for reply in self._replies])

    def take(self, reply: Reply) -> None:
        """Pair *reply* with the command that awaits one. Raises :class:`WireBroken` when it is no answer to it.

        DATA is not answered 2yz, nothing else 3yz, and no recipient is taken behind a refused sender. Where
        that is said, some reply is missing or too many, and none of them can be told whose it is.
        """
        stage = STAGES[len(self._replies)]
        self._replies.append(reply)
        misplaced = OK if stage == "data" else GO_ON
        if reply.digit == misplaced or (stage == "rcpt" and reply.digit == OK and self.refusal):
            raise WireBroken("protocol")
        if self.refusal is None:
            if reply.digit >= REFUSED:
                self.refusal = reply
            else:
                self.stage = self.awaits or stage


class Pipelining:
    """Whether one relay is spoken to in groups: where it offers that, until it shows that it cannot.

    A relay that once answered a whole group knows how; when a connection to it breaks in the middle of
    one, that is an outage. Of any other relay it is a reason to ask step by step.
    """

    def __init__(self, *, allowed: bool, distrust: timedelta = DISTRUST) -> None:
        self._allowed = allowed
        self._distrust_s = distrust.total_seconds()
        self._proven = False
        self._distrusted_until = 0.0

    def serves(self, extensions: Mapping[str, str]) -> bool:
        """Whether a relay with *extensions* may be sent the next group."""
        offered = self._allowed and "pipelining" in extensions
        return offered and self._now() >= self._distrusted_until

    def answered(self) -> None:
        """Learn that a whole group was answered in order."""
        self._proven = True

    def broken(self) -> None:
        """Learn that the connection, or the relay's patience, ended within a group."""
        if not self._proven:
            self.lost_count()

    def lost_count(self) -> None:
        """Learn that replies came that cannot all be answers."""
        self._distrusted_until = self._now() + self._distrust_s

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
