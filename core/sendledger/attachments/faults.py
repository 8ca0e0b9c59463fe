"""What can be wrong with an attachment, and what can be wrong with the place it lies in."""

from __future__ import annotations

MISSING = "attachment.missing"
CHANGED = "attachment.changed"
TOO_LARGE = "attachment.too-large"
AWAY = "attachment.store-away"


class AttachmentFault(Exception):  # noqa: N818 - a fault of the file, not of the program
    """A file cannot go with its message; holds nobody else. Neither text names the file."""

    def __init__(self, rule: str, reason: str, remedy: str) -> None:
        super().__init__(f"{rule}: {reason}")
        self.rule = rule
        self.reason = reason
        self.remedy = remedy


class StoreAway(Exception):  # noqa: N818 - not an error: it comes back
    """Nothing is known of the file: its store did not answer. ``fault`` is a stable word.

    With ``alone`` the store answered, but will not let us read this one file.
    """

    def __init__(self, fault: str, *, alone: bool = False) -> None:
        super().__init__(f"the store of attachments is away: {fault}")
        self.fault = fault
        self.alone = alone


class PlaceRefused(ValueError):  # noqa: N818 - a refusal is the word for it
    """A file may not be taken from there. Says why, never from where."""


class SchemeRefused(PlaceRefused):
    """No root has this scheme."""
