"""The plugin host: loads what the configuration names, checks it, and calls it under a typed facade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType, ModuleType
from typing import cast

from pydantic import BaseModel

from sendledger.ledger.classification import Rule
from sendledger.plugin import loading
from sendledger.plugin.authorization import Authorization
from sendledger.plugin.calls import call_list, gave
from sendledger.plugin.channel import Candidate, Channel, Observed, Verdict
from sendledger.plugin.checks import Member, channel_member, module_member
from sendledger.plugin.faults import Faults, PluginFault
from sendledger.plugin.loading import Loaded
from sendledger.plugin.observing import Observers
from sendledger.plugin.port import ChannelPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long plugins may take, and how long a candidate may go that no policy speaks about."""

    authorize_within: timedelta = timedelta(seconds=5)
    observe_within: timedelta = timedelta(seconds=2)
    go_for: timedelta = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A loaded plugin: where it came from, the hooks of its module, and the channels it built."""

    name: str
    distribution: str
    version: str
    hooks: tuple[str, ...]
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    plugin: str
    channel: Channel
    member: Member


class PluginHost:
    """Load, build, seal; then ask.

    In this order: :meth:`load_plugin` for each configured plugin, :meth:`build_channel` for each
    channel, :meth:`seal` once. The order of loading is the order in which deployment plugins are asked.
    Everything that can be found wrong without a call stops start-up as a :class:`PluginFault`.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.faults = Faults()
        self._limits = limits or Limits()
        self._loaded: dict[str, Loaded] = {}
        self._members: dict[str, Member] = {}
        self._built: dict[str, _Built] = {}
        self._ports: dict[str, ChannelPort] = {}
        self._sealed = False

    # --- start-up ----------------------------------------------------------------------------

    def load_plugin(self, name: str, *, needed_by: str = "the configuration") -> ModuleType:
        """Import the plugin *name* once and check its hooks; a second call returns the same module.

        *needed_by* begins the sentence of a failure: ``channel "sms"``. Raises :class:`PluginFault`.
        """
        assert not self._sealed, "plugins are loaded before sealing"
        if name not in self._loaded:
            plugin = loading.load(name, needed_by=needed_by)
            self._refuse_second_name(plugin)
            self._members[name] = module_member(name, plugin.module)
            self._loaded[name] = plugin
        return self._loaded[name].module

    def settings_model(self, plugin: str) -> type[BaseModel]:
        """Return the model that types the settings of channels of the loaded *plugin*."""
        return loading.settings_model(self._loaded[plugin])

    def build_channel(self, name: str, plugin: str, settings: BaseModel) -> None:
        """Let the loaded *plugin* build the channel *name* and check what it built."""
        assert not self._sealed, "channels are built before sealing"
        assert name not in self._built, "a channel name is configured once"
        member = self._members[plugin]
        if "sendledger_channel" not in member.hooks:
            reason = (
                f'channel "{name}" names the plugin "{plugin}", which has no sendledger_channel'
            )
            raise PluginFault(reason, plugin=plugin)
        channel = call_list("sendledger_channel", [member])(name=name, settings=settings)
        if channel is None:
            raise gave(None, plugin=plugin, hook="sendledger_channel")
        if any(channel is built.channel for built in self._built.values()):
            raise PluginFault(
                "gave one object to two channels", plugin=plugin, hook="sendledger_channel"
            )
        self._built[name] = _Built(
            plugin=plugin, channel=cast(Channel, channel), member=channel_member(name, channel)
        )

    def seal(self) -> None:
        """Resolve every call list; from here on nothing is loaded or built."""
        assert not self._sealed, "a host is sealed once"
        deployment = tuple(self._members.values())
        self._ports = {
            name: ChannelPort(built.channel, built.member, deployment, self.faults)
            for name, built in self._built.items()
        }
        limits = self._limits
        self._authorization = Authorization(
            deployment, self.faults, within=limits.authorize_within, go_for=limits.go_for
        )
        self._observers = Observers(deployment, self.faults, within=limits.observe_within)
        self._sealed = True

    def set_rules(self, channel: str, rules: Sequence[Rule]) -> None:
        """Give the sealed *channel* its configured classification rules, replacing earlier ones."""
        self.channel(channel).set_rules(rules)

    # --- the work ----------------------------------------------------------------------------

    @property
    def channels(self) -> Mapping[str, ChannelPort]:
        """The sealed channels by configured name."""
        return MappingProxyType(self._ports)

    def channel(self, name: str) -> ChannelPort:
        """Return the sealed channel *name*. Raises ``KeyError`` for a name that is not configured."""
        return self._ports[name]

    async def authorize(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Ask all policies whether *candidates* may go now; same length, same order.

        The strictest verdict wins: deny, hold, wait, go. A failing policy holds all of them.
        """
        return await self._authorization.ask(candidates)

    @property
    def observing(self) -> bool:
        """Whether anybody wants to be told of observations."""
        return self._observers.any

    async def observed(self, observations: Sequence[Observed]) -> None:
        """Tell all observers, within the time limit. Never raises for what a plugin does."""
        await self._observers.tell(observations)

    async def aclose(self) -> None:
        """Close all channels; what goes wrong is counted."""
        for port in self._ports.values():
            await port.aclose()

    def describe(self) -> list[Description]:
        """Describe the loaded plugins in the order of loading."""
        return [self._describe(plugin) for plugin in self._loaded.values()]

    def _describe(self, plugin: Loaded) -> Description:
        return Description(
            name=plugin.name,
            distribution=plugin.distribution,
            version=plugin.version,
            hooks=tuple(sorted(self._members[plugin.name].hooks)),
            channels=tuple(n for n, b in self._built.items() if b.plugin == plugin.name),
        )

    def _refuse_second_name(self, plugin: Loaded) -> None:
        for other in self._loaded.values():
            if other.module is plugin.module:
                reason = f'the plugins "{other.name}" and "{plugin.name}" are the same module'
                raise PluginFault(f"{reason}; configure one of them", plugin=plugin.name)
