"""What a channel promises before it is asked anything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from sendledger.plugin.calls import call_list
from sendledger.plugin.channel import Capabilities, Receipts
from sendledger.plugin.checks import channel_member, module_member
from sendledger.plugin.conformance.bench import CHANNEL, PATIENT, bench, bounded, build
from sendledger.plugin.conformance.rig import ChannelRig
from sendledger.plugin.host import PluginHost
from sendledger.shipped import shipped

NOTHING = timedelta(0)
LOOK_UP_HOOKS = frozenset({"sendledger_look_up"})
RECEIPT_HOOKS = frozenset({"sendledger_read_callback"})


class PromiseChecks:
    """The host takes the channel, and its capabilities can be true."""

    @bounded
    async def test_the_host_loads_builds_and_seals_it(self, rig: ChannelRig) -> None:
        """Every hook has a name, a colour and arguments that the host knows."""
        async with rig.peer() as peer:
            host = build(rig, rig.settings(peer, answer_within=PATIENT))
            [described] = host.describe()
            assert described.channels == (CHANNEL,)
            await host.aclose()

    @bounded
    async def test_its_capabilities_can_be_true(self, rig: ChannelRig) -> None:
        """It renders something, waits for something, and claims no proof that it cannot ask for."""
        capabilities = await _capabilities(rig)
        assert capabilities.parts, "it renders no part"
        assert capabilities.handoff_max > NOTHING, "a handoff takes time"
        assert capabilities.window > NOTHING, "evidence takes time"
        if capabilities.absence_is_proof:
            assert capabilities.look_up, "absence can only be proof where there is a look-up"
        if table := capabilities.classification:
            file = shipped("config") / "classification" / f"{table}.yaml"
            assert file.is_file(), "its classification names no rule table that is shipped"

    @bounded
    async def test_look_up_is_there_exactly_if_it_is_offered(self, rig: ChannelRig) -> None:
        """Core asks nobody who cannot answer, and plans no answer that nobody gives."""
        hooks = await _hooks(rig)
        if (await _capabilities(rig)).look_up:
            assert hooks & LOOK_UP_HOOKS, "it declares look_up and has no sendledger_look_up"
        else:
            assert not hooks & LOOK_UP_HOOKS, "it has a look-up that it does not declare"
            pytest.skip("not offered: look-up")

    @bounded
    async def test_receipts_are_read_exactly_if_they_are_offered(self, rig: ChannelRig) -> None:
        """A channel without receipts reads none; one with them has a hook that does."""
        hooks = await _hooks(rig)
        if (await _capabilities(rig)).receipts is Receipts.NONE:
            assert not hooks & RECEIPT_HOOKS, "it reads receipts that it does not declare"
            pytest.skip("not offered: receipts")
        assert hooks & RECEIPT_HOOKS, "it declares receipts and has no hook that reads them"

    @bounded
    async def test_it_names_one_sender(self, rig: ChannelRig) -> None:
        """The identity that a sender's fault would pause has a name, the same each time."""
        async with bench(rig) as on:
            names = {on.port.sender_of(rig.content_settings) for _ in range(3)}
            assert len(names) == 1
            assert names.pop().strip(), "the sender has no name"


async def _capabilities(rig: ChannelRig) -> Capabilities:
    async with bench(rig) as on:
        return on.port.capabilities


async def _hooks(rig: ChannelRig) -> frozenset[str]:
    """Return the hooks that the channel itself implements."""
    async with rig.peer() as peer:
        return _built_hooks(rig, rig.settings(peer, answer_within=PATIENT))


def _built_hooks(rig: ChannelRig, settings: Mapping[str, object]) -> frozenset[str]:
    host = PluginHost()
    plugin = module_member(rig.plugin, host.load_plugin(rig.plugin))
    block = host.settings_model(rig.plugin).model_validate(settings)
    channel = call_list("sendledger_channel", [plugin])(name=CHANNEL, settings=block)
    return frozenset(channel_member(CHANNEL, channel).hooks)
