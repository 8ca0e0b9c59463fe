"""The composition root: the one place that knows all rooms and chooses the real things."""

from __future__ import annotations

import hmac
import json
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from pydantic import BaseModel

from sendledger.attachments import Cache, Files
from sendledger.content import load_content
from sendledger.journal.inbox import Inbox
from sendledger.journal.record import Recorder
from sendledger.keys import KeyRing
from sendledger.ledger.classification import Rule
from sendledger.ledger.policy import Policy
from sendledger.ledger.rule_table import parse_rules
from sendledger.metrics.receipts import ReceiptMeters
from sendledger.plugin.channel import Content
from sendledger.plugin.host import PluginHost
from sendledger.postgres import Embedded
from sendledger.settings.attachments import AttachmentSettings
from sendledger.settings.describe import describe
from sendledger.settings.load import load
from sendledger.settings.model import Settings
from sendledger.settings.policy import PolicySettings, policy_revision
from sendledger.settings.secret import Secret
from sendledger.settings.validate import validate_block
from sendledger.settings.yaml_text import parse_yaml, plain
from sendledger.shipped import shipped
from sendledger.store.database import Database
from sendledger.store.migrate import migrate
from sendledger.store.planning import ContentRow
from sendledger.store.schema import check_schema
from sendledger.web.context import Reception
from sendledger.work.context import ChannelWork, Compile, Rhythm, Workshop

KEY_FILE = "keys.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a configuration means, before anything is connected: typed, with its plugins built."""

    settings: Settings
    policy: PolicySettings
    blocks: Mapping[str, BaseModel]
    rules: Mapping[str, tuple[Rule, ...]]
    host: PluginHost
    revision: str

    @property
    def channels(self) -> tuple[str, ...]:
        """The configured channels, by name."""
        return tuple(self.settings.channels)

    def policy_of(self, channel: str) -> Policy:
        """Return what decides about *channel*, also when it is not configured any more."""
        ports = self.host.channels
        if channel not in ports:
            return self.policy.for_channel(
                channel, window=timedelta(days=5), revision=self.revision
            )
        able = ports[channel].capabilities
        return self.policy.for_channel(
            channel, window=able.window, revision=self.revision, look_up=able.look_up
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A plan with its keys and its database at hand."""

    plan: Plan
    keys: KeyRing
    database: Database
    listen_dsn: str
    recorder: Recorder

    @property
    def settings(self) -> Settings:
        """The typed settings."""
        return self.plan.settings

    @property
    def host(self) -> PluginHost:
        """The sealed plugin host."""
        return self.plan.host


def read_plan(config: Path) -> Plan:
    """Read the configuration and build what it names; no network, no database.

    Raises ``SettingsError`` or ``PluginFault``.
    """
    settings, policy = load(config, os.environ)
    host = PluginHost()
    for name in settings.plugins:
        host.load_plugin(name)
    blocks = {name: _build(host, name, settings) for name in settings.channels}
    host.seal()
    rules = {name: _rules(host, name, settings, policy) for name in settings.channels}
    for name, table in rules.items():
        host.set_rules(name, table)
    parts = {"policy": policy, "channels": blocks, "rules": rules, "plugins": settings.plugins}
    return Plan(
        settings=settings,
        policy=policy,
        blocks=blocks,
        rules=rules,
        host=host,
        revision=policy_revision(parts),
    )


def _build(host: PluginHost, name: str, settings: Settings) -> BaseModel:
    plugin = settings.channels[name].plugin
    host.load_plugin(plugin, needed_by=f'channel "{name}"')
    block = validate_block(host.settings_model(plugin), settings.channels[name].settings)
    host.build_channel(name, plugin, block)
    return block


def _rules(
    host: PluginHost, name: str, settings: Settings, policy: PolicySettings
) -> tuple[Rule, ...]:
    """Return the deployment's rules before the shipped table, their floors in the policy's time."""
    table = host.channel(name).capabilities.classification
    own = policy.classification.get(settings.channels[name].plugin, ())
    both = (*own, *(_shipped_rules(table) if table else ()))
    return tuple(_scaled(rule, policy.scale) for rule in both)


def _shipped_rules(table: str) -> tuple[Rule, ...]:
    file = shipped("config") / "classification" / f"{table}.yaml"
    text = file.read_text(encoding="utf-8")
    return parse_rules(plain(parse_yaml(text, file=file.name)), file.name)


def _scaled(rule: Rule, scale: float) -> Rule:
    if scale == 1 or rule.retry_floor is None:
        return rule
    return replace(rule, retry_floor=rule.retry_floor / scale)


class _Policies(dict[str, Policy]):
    """Strictly private: policies by channel, made for whatever channel a row names."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def __missing__(self, channel: str) -> Policy:
        policy = self[channel] = self._plan.policy_of(channel)
        return policy


def configurations(plan: Plan, key: bytes) -> dict[str, str]:
    """Return a keyed digest of each channel's settings, secrets included: it changes when they do."""
    return {name: _configuration(plan, name, block, key) for name, block in plan.blocks.items()}


def _configuration(plan: Plan, name: str, block: BaseModel, key: bytes) -> str:
    shown = [(row.path, row.value) for row in describe(block)]
    secrets = [(path, secret.reveal()) for path, secret in _secrets(block, ())]
    text = json.dumps([plan.settings.channels[name].plugin, shown, secrets])
    return hmac.digest(key, text.encode(), "sha256").hex()[:16]


def _secrets(block: BaseModel, path: tuple[str, ...]) -> list[tuple[str, Secret]]:
    found: list[tuple[str, Secret]] = []
    for name in type(block).model_fields:
        value = getattr(block, name)
        if isinstance(value, Secret):
            found.append((".".join((*path, name)), value))
        elif isinstance(value, BaseModel):
            found += _secrets(value, (*path, name))
    return found


def embedded(settings: Settings) -> Embedded | None:
    """Return the embedded server of *settings*, or None when they name a DSN."""
    own = settings.database.embedded
    return None if own is None else Embedded(settings.state_dir, port=own.port)


def database_url(settings: Settings, keys: KeyRing, server: Embedded | None) -> str:
    """Return where the ledger is, started and migrated when it is ours; refuse another schema.

    Raises ``PostgresError`` or ``SchemaError``.
    """
    if server is not None:
        url = server.ensure()
        migrate(url, installation_id=keys.installation_id)
        return url
    assert settings.database.dsn is not None
    url = settings.database.dsn.reveal()
    check_schema(url)
    return url


def _direct(settings: Settings) -> str | None:
    direct = settings.database.direct
    return None if direct is None else direct.reveal()


def key_ring(settings: Settings) -> KeyRing:
    """Return the installation's keys, made at the first start."""
    return KeyRing.load_or_create(settings.state_dir / KEY_FILE)


@asynccontextmanager
async def open_desk(config: Path, *, connections_max: int = 4) -> AsyncIterator[Desk]:
    """Connect what *config* describes; everything is closed again when the block ends.

    Raises the errors of reading it, ``KeyRingError``, ``PostgresError``, ``SchemaError``,
    ``DatabaseRefused`` and ``DatabaseAway``.
    """
    plan = read_plan(config)
    keys = key_ring(plan.settings)
    server = embedded(plan.settings)
    try:
        url = database_url(plan.settings, keys, server)
        async with Database(url, connections_max=connections_max) as database:
            await database.check(keys.installation_id)
            await database.note_policy(plan.revision, policy_document(plan))
            yield Desk(
                plan=plan,
                keys=keys,
                database=database,
                listen_dsn=_direct(plan.settings) or url,
                recorder=_recorder(plan, keys, database),
            )
            await plan.host.aclose()
    finally:
        if server is not None:
            server.release()


def policy_document(plan: Plan) -> str:
    """Return what the policy revision stands for, as JSON, to be read back years later."""
    rows = {row.path: row.value for row in describe(plan.policy)}
    rules = {name: [rule.id for rule in table] for name, table in plan.rules.items()}
    return json.dumps({"policy": rows, "rules": rules})


def _recorder(plan: Plan, keys: KeyRing, database: Database) -> Recorder:
    return Recorder(
        database=database,
        policies=_Policies(plan),
        revision=plan.revision,
        seal_key=keys.seal_key,
        configurations=configurations(plan, keys.seal_key),
        asked=frozenset(n for n, port in plan.host.channels.items() if port.capabilities.look_up),
    )


def workshop(desk: Desk, *, channels: Sequence[str] = ()) -> Workshop:
    """Return what a worker process works with, for *channels* or all that are configured."""
    plan, worker = desk.plan, desk.settings.worker
    chance = random.Random().random  # noqa: S311 - it only spreads retries
    return Workshop(
        database=desk.database,
        listen_dsn=desk.listen_dsn,
        host=plan.host,
        recorder=desk.recorder,
        channels=tuple(
            ChannelWork(
                name=name,
                policy=plan.policy_of(name),
                slots=plan.settings.channels[name].slots,
                limits=plan.settings.channels[name].limits.typed(),
            )
            for name in channels or plan.channels
        ),
        rhythm=Rhythm(
            lease=worker.lease,
            sweep=worker.sweep,
            poll=worker.poll,
            claim_max=worker.claim_max,
            stop_grace=worker.stop_grace,
        ),
        compile_content=compiler(plan.host),
        attachments=attachment_cache(plan.settings.attachments),
        token_keys=dict(desk.keys.token_keys),
        token_key_id=desk.keys.token_key_id,
        new_token=uuid4,
        chance=chance,
        public_url=desk.settings.http.public_url,
    )


def reception(
    desk: Desk, inbox: Inbox, meters: ReceiptMeters, hears: Callable[[], bool | None]
) -> Reception:
    """Return what receipts are taken in with."""
    return Reception(
        database=desk.database,
        host=desk.host,
        inbox=inbox,
        meters=meters,
        public_url=desk.settings.http.public_url,
        token_keys=dict(desk.keys.token_keys),
        hears=hears,
    )


def nowhere_to_report(plan: Plan) -> list[str]:
    """Return the channels whose receipts have nowhere to go: no public URL is configured."""
    if plan.settings.http.public_url is not None:
        return []
    return [name for name, port in plan.host.channels.items() if port.reads_callbacks]


def attachment_cache(limits: AttachmentSettings) -> Cache:
    """Return where a worker has the files of its messages from."""
    return Cache(Files(limits), max_bytes=limits.cache_bytes)


def compiler(host: PluginHost) -> Compile:
    """Return how stored content is compiled for a channel of *host*."""

    def compile_content(channel: str, stored: ContentRow) -> Content:
        capabilities = host.channel(channel).capabilities
        compiled = load_content(stored.parts, capabilities.parts, settings=stored.settings)
        return Content(
            revision=compiled.revision_hex, parts=compiled.parts, settings=compiled.settings
        )

    return compile_content
