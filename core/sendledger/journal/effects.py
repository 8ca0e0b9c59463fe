"""Side effects of an advance: tasks, suppressions and pauses, each once per observation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sendledger.journal.advance import Advance, pause_scope
from sendledger.ledger.findings import Finding
from sendledger.ledger.words import Outcome, Ruling, Status, Suppress
from sendledger.store.scopes import NewPause
from sendledger.store.side_effects import NewSuppression, NewTask

_Row = TypeVar("_Row")
_QUIET_ENDS = frozenset({Ruling.STOP, Ruling.ERASE})


@dataclass(slots=True, kw_only=True)
class Effects:
    """What is written beside the observations, in the same transaction."""

    tasks: list[NewTask] = field(default_factory=list)
    suppressions: list[NewSuppression] = field(default_factory=list)
    pauses: list[NewPause] = field(default_factory=list)

    def in_one_order(self) -> None:
        """Order what has unique keys, once each: two groups that write the same then never deadlock."""
        self.suppressions = _ordered(
            self.suppressions, lambda row: (row.destination_fingerprint, row.scope_key)
        )
        self.pauses = _ordered(self.pauses, lambda row: row.scope_key)


def _ordered(rows: Iterable[_Row], key: Callable[[_Row], Any]) -> list[_Row]:
    first: dict[Any, _Row] = {}
    for row in rows:
        first.setdefault(key(row), row)
    return [first[name] for name in sorted(first)]


def effects_of(advances: Iterable[Advance], *, configuration: str) -> Effects:
    """Collect the side effects of a group; *configuration* marks the pauses it begins."""
    effects = Effects()
    for done in advances:
        effects.tasks.extend(_tasks(done))
        for seq, finding in done.added:
            effects.suppressions.extend(_suppressions(done, seq, finding))
            effects.pauses.extend(_pauses(done, finding, configuration))
    effects.in_one_order()
    effects.tasks.extend(
        NewTask(kind="paused", cause=pause.rule, scope_key=pause.scope_key)
        for pause in effects.pauses
    )
    return effects


def _tasks(done: Advance) -> Iterator[NewTask]:
    batch, example = f"batch:{done.locked.batch_id}", done.locked.intent_id
    if done.after.contradicted and not done.before.contradicted:
        key = f"intent:{done.locked.intent_key.hex()}"
        yield NewTask(
            kind="contradicted", cause=done.added[-1][1].rule, scope_key=key, intent_id=example
        )
    for seq, finding in done.added:
        if finding.ruling is Ruling.ASK:
            yield NewTask(kind="unknown", cause=finding.rule, scope_key=batch, intent_id=example)
        elif finding.ruling is Ruling.HOLD and finding.cause and not _paused(finding.cause):
            yield NewTask(kind="held", cause=finding.cause, scope_key=batch, intent_id=example)
        if seq == done.after.because and _failed_now(done) and finding.ruling not in _QUIET_ENDS:
            yield NewTask(kind="failed", cause=finding.rule, scope_key=batch, intent_id=example)


def _paused(cause: str) -> bool:
    return cause.startswith(("channel:", "sender:", "batch:", "purpose:", "all"))


def _failed_now(done: Advance) -> bool:
    return done.after.status is Status.FAILED and done.before.status is not Status.FAILED


def _suppressions(done: Advance, seq: int, finding: Finding) -> Iterator[NewSuppression]:
    if finding.suppress is Suppress.NONE:
        return
    channel = f"channel:{done.locked.channel}"
    senders = [key for key in done.locked.scope_keys if key.startswith("sender:")]
    pair = senders[0] if finding.suppress is Suppress.PAIR and senders else channel
    yield NewSuppression(
        destination_fingerprint=done.locked.destination_fingerprint,
        scope_key=pair,
        rule=finding.rule,
        intent_id=done.locked.intent_id,
        seq=seq,
    )


def _pauses(done: Advance, finding: Finding, configuration: str) -> Iterator[NewPause]:
    if finding.outcome is Outcome.PERMANENT and finding.scope is not None and finding.scope.ours:
        yield NewPause(
            scope_key=pause_scope(done.locked, finding.scope),
            rule=finding.rule,
            began_by=f"intent:{done.locked.intent_key.hex()}",
            configuration=configuration,
            stage=finding.stage,
            reply_code=finding.reply_code,
        )
