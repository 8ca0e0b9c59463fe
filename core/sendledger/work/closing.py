"""Closing and opening a channel: back-off by outage, pause by configuration fault, probe and resume."""

from __future__ import annotations

from datetime import datetime, timedelta

from sendledger.journal.scopes import pause_for_fault
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.logs import get_logger
from sendledger.store import scopes, side_effects
from sendledger.store.database import Connection, DatabaseAway
from sendledger.store.deliveries import Claimed
from sendledger.store.side_effects import NewTask
from sendledger.work.breaker import Breaker
from sendledger.work.context import ChannelWork, Workshop

log = get_logger(__name__)


class Closing:
    """Whether one channel is closed by an outage. The database says so to all workers; this remembers."""

    def __init__(self, shop: Workshop, channel: ChannelWork) -> None:
        self._shop = shop
        self._policy = channel.policy
        self._name = channel.name
        self._scope_key = f"channel:{channel.name}"
        self._breaker = Breaker(policy=channel.policy)
        self.closed = False
        self._probing = False
        self._dry = True

    @property
    def shut(self) -> bool:
        """Whether nothing may be tried now: the channel is closed, and no probe is under way."""
        return self.closed and not self._probing

    def not_before(self, row: Claimed) -> datetime | None:
        """Return when a row that found no session may be claimed again.

        None while the channel is closed (the probe decides); otherwise one probe later, so that a lone
        row does not spin against a closed door.
        """
        return None if self.closed else row.claimed_at + self._policy.probe

    async def probing(self) -> bool | None:
        """Say how to claim: False as usual, True to probe with one row, None not at all.

        The database is asked only when the last claims gave nothing: one gives nothing while the channel
        is closed.
        """
        look, self._dry = self.closed or self._dry, True
        if not look:
            return False
        async with self._shop.database.connection() as connection:
            closed = await scopes.list_back_offs(connection)
            self.closed = any(found.scope_key == self._scope_key for found in closed)
            self._probing = False
            if not self.closed:
                return False
            probe = await scopes.win_probe(
                connection,
                self._scope_key,
                probe=self._policy.probe,
                probe_max=self._policy.probe_max,
            )
            if probe is None:
                return None
            await self._tell_late(connection, probe)
        self._probing = True
        return True

    def claimed(self, rows: int) -> None:
        """Learn how many rows a claim gave."""
        if rows:
            self._dry = False

    async def _tell_late(self, connection: Connection, probe: scopes.Probe) -> None:
        """Open a task only when an outage lasts: most end before a person could read of them."""
        if probe.now - probe.began_at >= self._policy.task_after:
            task = NewTask(kind="back-off", cause=probe.rule, scope_key=self._scope_key)
            await side_effects.open_tasks(connection, [task])

    async def success(self) -> None:
        """Open a closed channel again: it took something."""
        self._breaker.success()
        if not self.closed:
            return
        try:
            async with self._shop.database.transaction() as connection:
                await scopes.end_back_off(connection, self._scope_key)
                await side_effects.close_tasks(
                    connection, ["back-off"], self._scope_key, closed_by="probe"
                )
        except DatabaseAway:
            return
        self.closed = self._probing = False
        log.info("channel open again", channel=self._name)

    async def fault(self, intent_id: int, meaning: Classification, evidence: Evidence) -> None:
        """Count a fault of ours; close the channel once enough distinct intents met one."""
        wait = self._breaker.fault(intent_id, meaning, evidence)
        if wait is not None and not self.closed:
            await self._close(meaning.rule, wait)

    async def _close(self, rule: str, wait: timedelta) -> None:
        self.closed = True
        try:
            async with self._shop.database.connection() as connection:
                await scopes.begin_back_off(connection, self._scope_key, rule=rule, wait=wait)
        except DatabaseAway:
            self.closed = False
            return
        log.warning("channel backs off", channel=self._name, rule=rule, wait_s=wait.total_seconds())

    async def pause(self, row: Claimed, meaning: Classification, evidence: Evidence) -> None:
        """Pause the scope of a configuration fault that kept us from a session."""
        scope_key = self._scope_key
        if meaning.scope == "sender":
            scope_key = next((k for k in row.scope_keys if k.startswith("sender:")), scope_key)
        configuration = self._shop.recorder.configurations.get(self._name)
        try:
            await pause_for_fault(
                self._shop.database, scope_key, meaning, evidence, configuration=configuration
            )
        except DatabaseAway:
            return
        log.warning("paused", scope_key=scope_key, rule=meaning.rule)
