"""Plugins are imported one by one, only when named, and never fail in silence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from plugins_for_tests import install
from plugins_for_tests.recorder import RecorderSettings
from sendledger.plugin.faults import PluginFault
from sendledger.plugin.host import PluginHost
from sendledger.plugin.loading import installed


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Lend a folder on the import path, in which nothing is installed yet."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def write_module(site: Path, name: str, text: str) -> None:
    (site / f"{name}.py").write_text(text, encoding="utf-8")


def build_two(host: PluginHost) -> None:
    for name in ("desk", "hall"):
        host.build_channel(name, "builder", RecorderSettings())


def failure(name: str, *, needed_by: str = 'channel "sms"') -> str:
    with pytest.raises(PluginFault) as caught:
        PluginHost().load_plugin(name, needed_by=needed_by)
    return str(caught.value)


def test_a_plugin_is_imported_once_and_described_with_its_origin(site: Path) -> None:
    install(site, "acme-recorder", "2.5", recorder="plugins_for_tests.recorder")
    host = PluginHost()

    module = host.load_plugin("recorder")

    assert host.load_plugin("recorder") is module
    (description,) = host.describe()
    assert (description.name, description.distribution, description.version) == (
        "recorder",
        "acme-recorder",
        "2.5",
    )
    assert description.hooks == ("sendledger_channel",)


def test_an_installed_plugin_that_nobody_names_is_listed_but_not_imported(site: Path) -> None:
    write_module(site, "never_named_pkg", "raise ImportError('no libfoo')")
    install(site, "never-named", never_named="never_named_pkg")

    listed = [each for each in installed() if each.name == "never_named"]

    assert [each.distribution for each in listed] == ["never-named"]
    assert "never_named_pkg" not in sys.modules


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("raise ImportError('no libfoo')", "ImportError: no libfoo"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import sendledger_no_such_module", "ModuleNotFoundError: No module named"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("raise RuntimeError", "RuntimeError (distribution"),
    ],
)
def test_a_plugin_that_fails_to_import_is_named_with_its_cause(
    site: Path, source: str, cause: str
) -> None:
    write_module(site, "broken_pkg", source)
    install(site, "acme-broken", "0.3", broken="broken_pkg")

    text = failure("broken")

    assert text.startswith('channel "sms" needs the plugin "broken", which failed to load: ')
    assert cause in text
    assert text.endswith("(distribution acme-broken 0.3)")


def test_the_cause_of_a_failed_import_keeps_its_traceback(site: Path) -> None:
    write_module(site, "broken_pkg", "raise ImportError('no libfoo')")
    install(site, "acme-broken", broken="broken_pkg")

    with pytest.raises(PluginFault) as caught:
        PluginHost().load_plugin("broken")

    assert isinstance(caught.value.__cause__, ImportError)


def test_ctrl_c_during_an_import_stops_the_process(site: Path) -> None:
    write_module(site, "slow_pkg", "raise KeyboardInterrupt")
    install(site, "acme-slow", slow="slow_pkg")

    with pytest.raises(KeyboardInterrupt):
        PluginHost().load_plugin("slow")


def test_a_plugin_that_is_not_installed_is_named_with_those_that_are(site: Path) -> None:
    install(site, "acme-recorder", recorder="plugins_for_tests.recorder")

    text = failure("twilight")

    assert 'channel "sms" needs the plugin "twilight", which is not installed' in text
    assert "recorder" in text
    assert "install its distribution or correct the name" in text


def test_two_distributions_that_offer_one_name_are_refused(site: Path) -> None:
    install(site, "acme-recorder", recorder="plugins_for_tests.recorder")
    install(site, "other-recorder", recorder="plugins_for_tests.recorder")

    assert "acme-recorder 1.0 and other-recorder 1.0 both offer; uninstall one" in failure(
        "recorder"
    )


def test_a_plugin_must_be_a_module(site: Path) -> None:
    install(site, "acme-recorder", recorder="plugins_for_tests.recorder:Recorder")

    assert "plugins_for_tests.recorder:Recorder is no module" in failure("recorder")


def test_one_module_under_two_names_is_refused(site: Path) -> None:
    install(site, "acme", one="plugins_for_tests.recorder", two="plugins_for_tests.recorder")
    host = PluginHost()
    host.load_plugin("one")

    with pytest.raises(PluginFault, match='"one" and "two" are the same module'):
        host.load_plugin("two")


def test_the_settings_model_of_a_plugin_is_found(site: Path) -> None:
    install(site, "acme", recorder="plugins_for_tests.recorder")
    host = PluginHost()
    host.load_plugin("recorder")

    assert issubclass(host.settings_model("recorder"), BaseModel)


def test_a_plugin_without_a_settings_model_cannot_be_a_channel(site: Path) -> None:
    install(site, "acme", liar="plugins_for_tests.liar")
    host = PluginHost()
    host.load_plugin("liar")

    with pytest.raises(PluginFault, match="must be a pydantic model, found nothing"):
        host.settings_model("liar")


def test_a_channel_of_a_plugin_that_builds_none_is_refused(site: Path) -> None:
    install(site, "acme", liar="plugins_for_tests.liar")
    host = PluginHost()
    host.load_plugin("liar")

    with pytest.raises(PluginFault, match='"liar", which has no sendledger_channel'):
        host.build_channel("sms", "liar", RecorderSettings())


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("return None", "gave nothing; expected a Channel"),
        ("return 7", 'channel "desk" lacks sendledger_destination'),
        ("raise ValueError(settings)", r"raised ValueError at builder_pkg\.py:4"),
        ("return CHANNEL", "gave one object to two channels"),
    ],
)
def test_what_a_plugin_builds_must_be_a_channel(site: Path, body: str, fault: str) -> None:
    write_module(
        site,
        "builder_pkg",
        "from sendledger.plugin import hookimpl\n"
        "@hookimpl\n"
        "def sendledger_channel(name, settings):\n"
        f"    {body}\n"
        "from plugins_for_tests.recorder import Recorder, RecorderSettings\n"
        "CHANNEL = Recorder(RecorderSettings())\n",
    )
    install(site, "acme", builder="builder_pkg")
    host = PluginHost()
    host.load_plugin("builder")

    with pytest.raises(PluginFault, match=fault):
        build_two(host)


def test_a_bundled_plugin_loads_under_the_name_the_distribution_gives_it() -> None:
    host = PluginHost()

    host.load_plugin("policy")

    (description,) = host.describe()
    assert description.distribution == "sendledger"
    assert description.hooks == ("sendledger_authorize",)
