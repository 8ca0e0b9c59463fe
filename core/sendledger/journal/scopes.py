"""Pausing and resuming: by a person, by a configuration fault, by a changed configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sendledger.journal.advance import Entry, Proposal, Standing
from sendledger.journal.record import Recorder
from sendledger.ledger import decisions
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.findings import Finding
from sendledger.ledger.words import Awaits, Status
from sendledger.store import deliveries, scopes, side_effects
from sendledger.store.database import Database
from sendledger.store.listening import notify_work
from sendledger.store.scopes import NewPause
from sendledger.store.side_effects import NewTask

PAGE_ROWS = 500
TASKS_OF_A_PAUSE = ("paused", "held")


async def pause_for_fault(
    database: Database,
    scope_key: str,
    meaning: Classification,
    evidence: Evidence,
    *,
    configuration: str | None,
) -> None:
    """Pause *scope_key* because no session was to be had; one task, however many rows met it."""
    pause = NewPause(
        scope_key=scope_key,
        rule=meaning.rule,
        began_by="channel",
        configuration=configuration,
        stage=evidence.stage,
        reply_code=evidence.reply_code,
        literal=evidence.literal or None,
    )
    async with database.transaction() as connection:
        await scopes.note_pause(connection, pause)
        task = NewTask(kind="paused", cause=meaning.rule, scope_key=scope_key)
        await side_effects.open_tasks(connection, [task])


async def pause(database: Database, scope_key: str, *, actor: str) -> bool:
    """Pause by a person: exact, and only a person ends it. Returns whether it was not paused."""
    wanted = NewPause(scope_key=scope_key, rule="operator.paused", began_by=actor)
    async with database.transaction() as connection:
        return await scopes.begin_pause(connection, wanted)


async def resume(
    recorder: Recorder, scope_key: str, *, channels: Sequence[str], actor: str | None
) -> int | None:
    """End the pause of *scope_key* and release the rows held under it.

    *actor* is None when the configuration changed. Returns how many rows were released, or None when
    the scope was not paused. Listening workers are told. Rows still held after a crash in the middle are
    released by the next call.
    """
    async with recorder.database.transaction() as connection:
        await scopes.hold_dispatch(connection)
        ended = await scopes.end_pause(
            connection, scope_key, ended_by=actor or "configuration changed"
        )
        await side_effects.close_tasks(
            connection, TASKS_OF_A_PAUSE, scope_key, closed_by=actor or "configuration changed"
        )
    rows = 0
    for channel in channels:
        rows += await _release(recorder, channel, scope_key, actor)
        async with recorder.database.connection() as connection:
            await notify_work(connection, channel)
    return rows if ended or rows else None


async def _release(recorder: Recorder, channel: str, cause: str, actor: str | None) -> int:
    released_rows = 0
    while True:
        async with recorder.database.connection() as connection:
            held = await deliveries.find_held(
                connection, channel=channel, cause=cause, rows_max=PAGE_ROWS
            )
        if not held:
            return released_rows
        entries = [Entry(intent_id=i, propose=released(actor)) for i, _ in held]
        done = await recorder.record(entries)
        released_rows += sum(1 for step in done if step.added)
        if not any(step.added for step in done):
            return released_rows


def released(actor: str | None) -> Proposal:
    """Propose the release of a held row; on a refused one it is the decision for the next attempt.

    A row that has had every attempt the ledger admits stays held: a person may stop it or ask on.
    """

    def propose(standing: Standing) -> Sequence[Finding]:
        delivery, now = standing.delivery, standing.locked.now
        if delivery.awaits is not Awaits.RELEASE:
            return []
        following = delivery.attempt_count + 1
        if following > decisions.ATTEMPTS_MAX:
            return []
        authorises = following if delivery.status is Status.DEFERRED else None
        identity = f"release/{delivery.because}"
        return [decisions.release(authorises, identity=identity, now=now, actor=actor)]

    return propose


async def end_outdated_pauses(recorder: Recorder, configurations: Mapping[str, str]) -> list[str]:
    """Resume what was paused for a fault under a configuration that has changed since.

    Returns the scope keys. A pause by a person stays.
    """
    async with recorder.database.connection() as connection:
        standing = await scopes.list_pauses(connection)
    ended: list[str] = []
    for found in standing:
        channel = found.scope_key.split("/", 1)[0].partition(":")[2]
        now = configurations.get(channel)
        if found.configuration is not None and now is not None and now != found.configuration:
            await resume(recorder, found.scope_key, channels=[channel], actor=None)
            ended.append(found.scope_key)
    return ended
