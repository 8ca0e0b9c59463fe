"""Failure reports about plugins: plg-01, plg-02 and plg-03."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugins_for_tests import first_observer, install, second_observer
from plugins_for_tests.members import ENVELOPE, OBSERVED
from plugins_for_tests.recorder import RecorderSettings
from sendledger.plugin import Outcome
from sendledger.plugin.faults import PluginFault
from sendledger.plugin.host import PluginHost
from sendledger.plugin.loading import installed


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lend a folder on the import path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("broken_pkg", None)


def install_broken(site: Path) -> None:
    (site / "broken_pkg").mkdir()
    (site / "broken_pkg" / "__init__.py").write_text("", encoding="utf-8")
    (site / "broken_pkg" / "plugin.py").write_text(
        "raise ImportError('no libfoo')\n", encoding="utf-8"
    )
    install(site, "broken-pkg", "0.9", broken="broken_pkg.plugin", telegraph="broken_pkg.plugin")


async def test_plg_01_a_broken_plugin_that_nobody_configured_stops_nothing(site: Path) -> None:
    """It is listed with its distribution and never imported, so it has no traceback to log."""
    install_broken(site)
    install(site, "acme", recorder="plugins_for_tests.recorder")
    host = PluginHost()
    host.load_plugin("recorder")
    host.build_channel("desk", "recorder", RecorderSettings())
    host.seal()
    desk = host.channel("desk")

    async with desk.session() as session:
        evidence = await desk.submit(session, ENVELOPE)

    assert desk.classify(evidence).outcome is Outcome.ACCEPTED
    assert ("broken", "broken-pkg") in {(each.name, each.distribution) for each in installed()}
    assert "broken_pkg.plugin" not in sys.modules


async def test_plg_02_an_observer_that_raises_silences_no_other(site: Path) -> None:
    install(
        site,
        "observers",
        a="plugins_for_tests.first_observer",
        b="plugins_for_tests.raising_observer",
        c="plugins_for_tests.second_observer",
    )
    first_observer.heard.clear()
    second_observer.heard.clear()
    host = PluginHost()
    for name in "abc":
        host.load_plugin(name)
    host.seal()

    await host.observed([OBSERVED])

    assert first_observer.heard == second_observer.heard == [OBSERVED]
    assert host.faults == {("b", "sendledger_observed"): 1}


def test_plg_03_a_configured_plugin_that_fails_to_load_stops_start_up(site: Path) -> None:
    install_broken(site)

    with pytest.raises(PluginFault) as caught:
        PluginHost().load_plugin("telegraph", needed_by='channel "sms"')

    assert str(caught.value) == (
        'channel "sms" needs the plugin "telegraph", which failed to load: '
        "ImportError: no libfoo (distribution broken-pkg 0.9)"
    )
