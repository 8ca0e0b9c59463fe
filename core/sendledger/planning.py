"""Planning from an application, in a transaction of its own: the rows appear with the caller's, or not at all.

    planner = Planner.load("sendledger.yaml")
    async with connection.transaction():
        await connection.execute("UPDATE marks SET final = true WHERE term = 'spring'")
        planned = await planner.plan(connection, batch, recipients)

*connection* is the caller's own psycopg ``AsyncConnection`` to the database that holds the ledger.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sendledger.attachments import Files
from sendledger.bootstrap import KEY_FILE, read_plan
from sendledger.journal.attaching import open_attaching
from sendledger.journal.batch import (
    AttachmentSource,
    Authorization,
    Batch,
    BatchFault,
    Reject,
    Row,
    batch_of,
)
from sendledger.journal.conflicts import Conflict, PlanConflict
from sendledger.journal.intake import open_intake
from sendledger.journal.plan import each, plan
from sendledger.keys import KeyRing
from sendledger.ledger.words import Lane
from sendledger.plugin.host import PluginHost
from sendledger.settings.attachments import AttachmentSettings
from sendledger.settings.batch import load_batch
from sendledger.store.database import DatabaseRefused
from sendledger.store.planning import Binding, PlanningConnection, read_binding
from sendledger.store.schema import SchemaError, head_revision

__all__ = [
    "AttachmentSource",
    "Authorization",
    "Batch",
    "BatchFault",
    "Conflict",
    "DatabaseRefused",
    "Lane",
    "PlanConflict",
    "Planned",
    "Planner",
    "Recipient",
    "Reject",
    "SchemaError",
    "read_batch",
]

NO_ATTACHMENTS = AttachmentSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Whom a message is for. ``id`` is the caller's id of the person, not the address.

    ``variables`` are by their names in the templates: text, numbers, lists and mappings. None, and a text
    of nothing but space, is no value.
    """

    id: str
    destination: str = field(repr=False)
    variables: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """How many recipients were added, known from before, and repeated; and who was left out, and why.

    The ``line`` of a reject is the place of its recipient, from 1.
    """

    added: int
    known: int
    repeated: int
    rejects: tuple[Reject, ...]


class Planner:
    """Plans batches on the channels of one installation. Costs a second to make and may be shared."""

    def __init__(
        self,
        host: PluginHost,
        keys: KeyRing,
        attachments: AttachmentSettings = NO_ATTACHMENTS,
    ) -> None:
        """Plan on the channels of *host*, under the identities of *keys*; see :meth:`load`."""
        self._host = host
        self._keys = keys
        self._attachments = attachments
        self._schema_revision = head_revision()

    @classmethod
    def load(cls, config: str | os.PathLike[str]) -> Self:
        """Return the planner of the installation that the settings file *config* describes.

        Its key file must be there already. Raises ``SettingsError``, ``PluginFault`` and ``KeyRingError``.
        """
        described = read_plan(Path(config))
        keys = KeyRing.load(described.settings.state_dir / KEY_FILE)
        return cls(described.host, keys, described.settings.attachments)

    async def plan(
        self,
        connection: PlanningConnection,
        batch: Batch,
        recipients: Iterable[Recipient] | AsyncIterable[Recipient],
    ) -> Planned:
        """Plan *batch* for every one of *recipients* that it can be planned for.

        Happens as a whole or not at all, inside the caller's transaction, and is committed or rolled back
        with it. Without one, a connection in autocommit commits when this returns; another begins one, as
        psycopg does, for the caller to commit. Others who plan the same batch wait until it ends.
        *connection* must not be used otherwise until this returns, but by *recipients*.

        Raises :class:`BatchFault` and :class:`PlanConflict`, after which nothing of it is planned and the
        transaction may go on; :class:`DatabaseRefused` and :class:`SchemaError` for a database that does
        not hold this installation's ledger; ``PluginFault``, and psycopg's own errors.
        """
        intake = open_intake(batch, self._host, self._keys)
        attaching = open_attaching(batch, self._host.channels, Files(self._attachments))
        self._refuse_stranger(await read_binding(connection))
        rejects: list[Reject] = []
        rows = attaching.attached(_rows(recipients))
        result = await plan(connection, intake, rows, on_reject=rejects.append)
        return Planned(
            added=result.added,
            known=result.known,
            repeated=result.repeated,
            rejects=tuple(rejects),
        )

    def _refuse_stranger(self, binding: Binding | None) -> None:
        """Never plan into a database whose keys are others: nobody there would be known again."""
        if binding is None:
            raise DatabaseRefused(
                "the connection's database holds no ledger: connect to the one of the settings"
            )
        if binding.installation_id != self._keys.installation_id:
            raise DatabaseRefused(
                "the connection's database belongs to another installation: use the key file that was"
                " made with it"
            )
        if binding.schema_revision != self._schema_revision:
            raise SchemaError(
                f"the database is at schema {binding.schema_revision}, this version needs"
                f" {self._schema_revision}: run `sendledger db migrate`"
            )


def read_batch(file: str | os.PathLike[str]) -> Batch:
    """Return the batch that a batch file describes; its columns are of no concern here.

    Raises ``SettingsError``.
    """
    return batch_of(load_batch(Path(file)).settings)


async def _rows(recipients: Iterable[Recipient] | AsyncIterable[Recipient]) -> AsyncIterator[Row]:
    place = 0
    async for recipient in each(recipients):
        place += 1
        yield Row(place, recipient.id, recipient.destination, recipient.variables)
