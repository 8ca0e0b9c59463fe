"""Proof that the projection is the fold of the ledger, and that the ledger is whole; and the rebuild."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime

from sendledger.journal.folding import delivery_row, ledger_order
from sendledger.journal.seals import seal_attempt, seal_observation
from sendledger.ledger.fold import fold
from sendledger.ledger.rows import Attempt, Delivery, Origin, Row
from sendledger.ledger.words import Provenance
from sendledger.store import ledger_rows, views
from sendledger.store.database import Connection, Database
from sendledger.store.ledger_rows import AttemptRow, ObservationRow
from sendledger.store.views import PagedIntent, RestoredRow

PAGE_ROWS = 1000
FOLDED = tuple(field.name for field in fields(Delivery))


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """Something that is not as the ledger says. ``kind`` is one of the words below, ``what`` a sentence.

    ``delivery-missing``, ``column-differs``, ``row-missing``, ``row-doubled``, ``seal-broken``.
    """

    intent_key: str
    kind: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of intents, verified; ``rebuilt`` rows were written anew."""

    intents: int
    discrepancies: tuple[Discrepancy, ...]
    rebuilt: int = 0


async def verify(
    database: Database, seal_key: bytes, *, rebuild: bool = False, asked: Collection[str] = ()
) -> AsyncIterator[Page]:
    """Fold every intent anew and compare; with *rebuild* write the projections that differ.

    *asked* are the channels whose provider can be asked: it is not known any more when that was done
    last, so what they await is asked about as soon as it is due.

    Each page is read in one snapshot, so that work may go on meanwhile. Rebuilding writes nothing but
    ``delivery``, and never from a ledger that is not whole: without the row that says so, what was
    handed over would look as if it never was. Such an intent stays as it is and is named every time.
    """
    after = 0
    while True:
        async with database.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            intents = await views.page_intents(connection, after=after, rows_max=PAGE_ROWS)
            if not intents:
                return
            page, wrong = await _verify_page(connection, intents, seal_key, asked)
            if rebuild and wrong:
                await views.restore_deliveries(connection, wrong)
        yield replace(page, rebuilt=len(wrong)) if rebuild else page
        after = intents[-1].intent_id


async def _verify_page(
    connection: Connection,
    intents: Sequence[PagedIntent],
    seal_key: bytes,
    asked: Collection[str],
) -> tuple[Page, list[RestoredRow]]:
    """Return what was found, and the rows of what is wrong as the ledger gives them."""
    ids = [intent.intent_id for intent in intents]
    attempts = await ledger_rows.load_attempts(connection, ids)
    observations = await ledger_rows.load_observations(connection, ids)
    found: list[Discrepancy] = []
    wrong: list[RestoredRow] = []
    for intent in intents:
        tried, seen = attempts.get(intent.intent_id, []), observations.get(intent.intent_id, [])
        rows = ledger_order(tried, seen)
        folded = fold(_origin(intent), rows)
        broken = _whole(intent, rows) + _sealed(intent, tried, seen, seal_key)
        differing = list(_differing(intent, folded))
        found += broken + differing
        if differing and not broken:
            look_from = intent.read_at if intent.channel in asked else None
            wrong.append(_restored(intent, folded, rows, look_from))
    return Page(intents=len(intents), discrepancies=tuple(found)), wrong


def _origin(intent: PagedIntent) -> Origin:
    return Origin(eligible_at=intent.eligible_at, provenance=Provenance(intent.provenance))


def _whole(intent: PagedIntent, rows: Sequence[Row]) -> list[Discrepancy]:
    seqs = [row.seq for row in rows]
    last = max([*seqs, intent.seq or 0])
    missing = sorted(set(range(1, last + 1)) - set(seqs))
    doubled = sorted({seq for seq in seqs if seqs.count(seq) > 1})
    return [_named(intent, "row-missing", f"ledger row {seq} is missing") for seq in missing] + [
        _named(intent, "row-doubled", f"ledger row {seq} stands twice") for seq in doubled
    ]


def _sealed(
    intent: PagedIntent,
    attempts: Sequence[AttemptRow],
    observations: Sequence[ObservationRow],
    key: bytes,
) -> list[Discrepancy]:
    i = intent.intent_id
    broken = [
        f"attempt {row.number} at row {row.seq}"
        for row in attempts
        if row.seal != seal_attempt(key, i, row.seq, row.number, row.decision_seq)
    ] + [
        f"observation at row {row.seq} ({row.rule})"
        for row in observations
        if row.seal != seal_observation(key, i, row.seq, row)
    ]
    return [
        _named(intent, "seal-broken", f"{what} was moved or changed since it was written")
        for what in broken
    ]


def _differing(intent: PagedIntent, folded: Delivery) -> Iterator[Discrepancy]:
    if not intent.has_delivery:
        yield _named(intent, "delivery-missing", "the delivery row is gone")
        return
    for name in FOLDED:
        stored, wanted = getattr(intent, name), getattr(folded, name)
        if stored != wanted:
            what = f"{name} is {_shown(stored)}, the ledger says {_shown(wanted)}"
            yield _named(intent, "column-differs", what)


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)


def _named(intent: PagedIntent, kind: str, what: str) -> Discrepancy:
    return Discrepancy(intent_key=intent.intent_key.hex(), kind=kind, what=what)


def _restored(
    intent: PagedIntent, folded: Delivery, rows: Sequence[Row], look_from: datetime | None
) -> RestoredRow:
    attempts = [row for row in rows if isinstance(row, Attempt)]
    plain = delivery_row(intent.intent_id, folded, attempts, look_from)
    values = {field.name: getattr(plain, field.name) for field in fields(plain)}
    return RestoredRow(**values, batch_id=intent.batch_id, channel=intent.channel, lane=intent.lane)
