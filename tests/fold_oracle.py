"""A second opinion on the fold: slow, stateless, written from the rules and not from the code.

It first drops the rows that move nothing, then reads everything off the rows that are left. The product's
fold keeps a running state instead; where both agree on random histories, neither has slipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sendledger.ledger.rows import Attempt, Observation, Origin, Row
from sendledger.ledger.words import Outcome, Ruling, Source

LADDER = (
    "open", "unknown", "not now", "never", "accepted", "not now, later", "never, later", "delivered",
)  # fmt: skip
NEVER = {"never", "never, later"}
BAR_ENDS = {
    Ruling.SUPPRESS: "suppressed",
    Ruling.EXPIRE: "failed",
    Ruling.EXHAUST: "failed",
    Ruling.FAULT: "failed",
    Ruling.STOP: "failed",
    Ruling.ERASE: "failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What the oracle says of a history."""

    status: str
    awaits: str | None
    due_at: datetime | None
    contradicted: bool
    spent: int
    attempt_count: int


def opinion(origin: Origin, rows: Sequence[Row]) -> Opinion:
    """Judge *rows*, which are in ledger order."""
    kept: list[Row] = []
    end: str | None = None
    for row in rows:
        if _moves_something(kept, row, end):
            kept.append(row)
        end = end or _end(kept)
    status, awaits, due_at = (end, None, None) if end else _where(origin, kept)
    ever = {word for words in _words(kept).values() for word in words}
    against = NEVER if end == "delivered" else {"delivered"}
    return Opinion(
        status=status,
        awaits=awaits,
        due_at=due_at,
        contradicted=end is not None and bool(ever & against),
        spent=len(_tries(kept) - _ours(kept)),
        attempt_count=max(_tries(kept), default=0),
    )


def contradictory(rows: Sequence[Row]) -> bool:
    """Whether *rows* hold evidence that cannot all be true."""
    words = _words(rows)
    ever = {word for attempt in words.values() for word in attempt}
    taken = {"accepted", "not now, later", "never, later", "delivered"}
    both = any(said & {"not now", "never"} and said & taken for said in words.values())
    return both or ("delivered" in ever and bool(ever & NEVER)) or len(_endings(rows)) > 1


# --- which rows count ------------------------------------------------------------------------


def _moves_something(kept: Sequence[Row], row: Row, end: str | None) -> bool:
    if isinstance(row, Attempt):
        return True
    match row.ruling:
        case None if row.source is Source.OPERATOR:
            return _top(kept).get(row.attempt or 0) == "unknown"
        case Ruling.RETRY:
            return row.authorises == max(_tries(kept), default=0) + 1
        case Ruling.RELEASE:
            return _held(kept) is not None
        case ruling if ruling in BAR_ENDS:
            return end is None
        case _:
            return True


# --- reading the rows that are left ----------------------------------------------------------


def _words(rows: Sequence[Row]) -> dict[int, set[str]]:
    said: dict[int, set[str]] = {}
    for row in rows:
        if isinstance(row, Attempt):
            said.setdefault(row.number, set()).add("open")
        elif row.outcome is not None and row.attempt is not None:
            said.setdefault(row.attempt, set()).add(_word(row))
    return said


def _word(row: Observation) -> str:
    if row.outcome is Outcome.AMBIGUOUS:
        return "unknown"
    if row.outcome in {Outcome.ACCEPTED, Outcome.DELIVERED}:
        return str(row.outcome)
    about_us = row.scope in {"sender", "channel"}
    word = "never" if row.outcome is Outcome.PERMANENT and not about_us else "not now"
    return f"{word}, later" if row.later else word


def _top(rows: Sequence[Row]) -> dict[int, str]:
    return {k: max(said, key=LADDER.index) for k, said in _words(rows).items()}


def _endings(rows: Sequence[Row]) -> set[bool]:
    """Which of failed (False) and suppressed (True) permanent refusals speak for."""
    return {
        row.opt_out
        for row in rows
        if isinstance(row, Observation) and row.outcome is not None and _word(row) in NEVER
    }


def _tries(rows: Sequence[Row]) -> set[int]:
    return {k for k in _words(rows) if k > 0}


def _ours(rows: Sequence[Row]) -> set[int | None]:
    return {row.attempt for row in rows if isinstance(row, Observation) and not row.spent}


def _rulings(rows: Sequence[Row], *rulings: Ruling) -> list[Observation]:
    return [row for row in rows if isinstance(row, Observation) and row.ruling in rulings]


def _since_newest(rows: Sequence[Row]) -> Sequence[Row]:
    opened = [i for i, row in enumerate(rows) if isinstance(row, Attempt)]
    return rows[opened[-1] + 1 :] if opened else rows


def _held(rows: Sequence[Row]) -> datetime | None:
    last = _rulings(_since_newest(rows), Ruling.HOLD, Ruling.RELEASE)[-1:]
    return last[0].due_at if last and last[0].ruling is Ruling.HOLD else None


def _not_before(rows: Sequence[Row], due: datetime) -> datetime:
    waits = _rulings(_since_newest(rows), Ruling.WAIT, Ruling.RELEASE)
    return max(due, waits[-1].due_at or due) if waits else due


def _bar(rows: Sequence[Row]) -> str | None:
    bars = _rulings(rows, *BAR_ENDS)
    return BAR_ENDS[bars[0].ruling] if bars and bars[0].ruling else None


def _end(rows: Sequence[Row]) -> str | None:
    top = _top(rows)
    if "delivered" in top.values():
        return "delivered"
    tries = _tries(rows)
    if (tries and top[max(tries)] == "open") or {"unknown", "accepted"} & set(top.values()):
        return None
    if NEVER & set(top.values()):
        return "suppressed" if True in _endings(rows) else "failed"
    return _bar(rows)


def _promised(origin: Origin, rows: Sequence[Row]) -> datetime | None:
    """When the next attempt may go: by the last retry, else by the first release of a refused row."""
    if _bar(rows):
        return None
    following = max(_tries(rows), default=0) + 1
    retries = [row for row in _rulings(rows, Ruling.RETRY) if row.authorises == following]
    if retries:
        return retries[-1].due_at
    recent = _since_newest(rows)
    skipped = len(rows) - len(recent)
    for i, row in enumerate(recent, start=skipped):
        if isinstance(row, Observation) and row.ruling is Ruling.RELEASE:
            before = rows[:i]
            if not _end(before) and _where(origin, before)[0] == "deferred":
                return row.due_at
    return None


def _where(origin: Origin, rows: Sequence[Row]) -> tuple[str, str | None, datetime | None]:
    quiet = not origin.native or bool(_rulings(rows, Ruling.STOP, Ruling.ERASE))
    status, awaits, due_at = _aloud(origin, rows)
    return (status, None, None) if quiet and awaits != "result" else (status, awaits, due_at)


def _aloud(origin: Origin, rows: Sequence[Row]) -> tuple[str, str | None, datetime | None]:
    top = _top(rows)
    attempts = {row.number: row for row in rows if isinstance(row, Attempt)}
    newest = max(_tries(rows), default=0)
    if newest and top[newest] == "open":
        return "submitting", "result", attempts[newest].result_due_at
    if "accepted" in top.values():
        return _submitted(origin, rows, attempts)
    if "unknown" in top.values():
        k = max(k for k, word in top.items() if word == "unknown")
        silent = ("evidence", attempts[k].unknown_due_at if k in attempts else origin.eligible_at)
        return "ambiguous", *_next(origin, rows, k, otherwise=silent)
    if not top:
        dispatch = ("dispatch", _not_before(rows, origin.eligible_at))
        return "planned", *(_hold(rows) or dispatch)
    silent = ("decision", origin.eligible_at)
    return "deferred", *(_hold(rows) or _next(origin, rows, newest, otherwise=silent))


def _next(
    origin: Origin, rows: Sequence[Row], k: int, *, otherwise: tuple[str, datetime]
) -> tuple[str, datetime | None]:
    if promised := _promised(origin, rows):
        return _hold(rows) or ("retry", _not_before(rows, promised))
    if asked := [row for row in _rulings(rows, Ruling.ASK) if row.attempt == k]:
        return "decision", asked[-1].due_at
    return otherwise


def _hold(rows: Sequence[Row]) -> tuple[str, datetime] | None:
    held = _held(rows)
    return ("release", held) if held else None


def _submitted(
    origin: Origin, rows: Sequence[Row], attempts: dict[int, Attempt]
) -> tuple[str, str | None, datetime | None]:
    standing = {k for k, word in _top(rows).items() if word == "accepted"}
    if standing <= {row.attempt for row in _rulings(rows, Ruling.CLOSE)}:
        return "submitted", None, None
    dues = [attempts[k].evidence_due_at for k in standing if k in attempts]
    dues += [
        row.due_at
        for row in rows
        if isinstance(row, Observation)
        and row.outcome is Outcome.ACCEPTED
        and row.attempt in standing
        and row.due_at is not None
    ]
    return "submitted", "evidence", max(dues, default=origin.eligible_at)
