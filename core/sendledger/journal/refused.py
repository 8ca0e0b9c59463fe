"""Why a row becomes no intent."""

from __future__ import annotations

from sendledger.journal.batch import Reject


class Refused(Exception):  # noqa: N818 - a refusal is the word for it
    """A row is refused for its *field*; nothing in it quotes the row."""

    def __init__(self, field: str, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason
        self.remedy = remedy

    def reject(self, line: int) -> Reject:
        """Return the reject of the row at *line*."""
        return Reject(line=line, field=self.field, reason=self.reason, remedy=self.remedy)


def unwritable(field: str, sentence: str, remedy: str) -> Refused:
    """Return the refusal behind a channel's *sentence*, which may say itself what to do."""
    reason, _, own = sentence.partition("; ")
    return Refused(field, reason, own or remedy)
