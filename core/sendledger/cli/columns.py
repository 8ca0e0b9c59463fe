"""Which column of the recipients holds what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sendledger.journal.batch import DESTINATION, RECIPIENT, VARIABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which column holds what: the recipient's id, the destination, and each variable by its name.

    In JSON a column is a key of each line's object; ``optional`` variables may have none there. ``uses``
    tells of a column which tag of the content needs it, and where that stands.
    """

    recipient_id: str
    destination: str
    variables: Mapping[str, str]
    optional: frozenset[str] = frozenset()
    uses: Mapping[str, str] = field(default_factory=dict)

    def names(self) -> dict[str, str]:
        """Return the column behind each field that a reject may name."""
        variables = {VARIABLE + name: column for name, column in self.variables.items()}
        return {RECIPIENT: self.recipient_id, DESTINATION: self.destination, **variables}
