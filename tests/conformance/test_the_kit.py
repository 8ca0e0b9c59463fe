"""The conformance kit itself: an honest channel passes, and every check fails for some liar."""

from __future__ import annotations

import inspect
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import conformance.later_liars  # noqa: F401 - who tells the later lies
from conformance.later_lies import (
    ANSWERED,
    COMES,
    IN_ORDER,
    IS_EVIDENCE,
    LATER_LIES,
    ONE_FIND,
    SEVERAL,
    WITHOUT,
)
from conformance.liars import LIARS, LiarRig
from conformance.lies import LIES, SAYS, Lie
from plugins_for_tests import install
from sendledger.plugin.conformance import ChannelConformance, ChannelRig, Fate, Reaction, bench
from sendledger.plugin.conformance.enclosing import EnclosingChecks
from sendledger.plugin.faults import PluginFault

HONEST = {"none", "none, with files", "none, without a search"}
CAUGHT = (AssertionError, PluginFault, pytest.fail.Exception)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the liars as anybody's plugin is."""
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "acme-liars", liars="conformance.liars")


class TestHonest(ChannelConformance):
    """What the liars are made of conforms, so that only the lie is caught."""

    @pytest.fixture
    def rig(self) -> ChannelRig:
        return LiarRig("none")


class TestHonestWithFiles(EnclosingChecks):
    """And what those are made of that take files along."""

    @pytest.fixture
    def rig(self) -> ChannelRig:
        return LiarRig("none, with files")


@pytest.mark.parametrize("lie", [*LIES, *LATER_LIES], ids=lambda lie: lie.told)
def test_a_lie_is_caught_for_what_it_is(
    lie: Lie, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "SOON", timedelta(seconds=1))
    with pytest.raises(CAUGHT, match=lie.said):
        run(lie.check, LiarRig(lie.told), request, **lie.given)


def test_every_check_catches_a_lie_and_every_lie_is_told() -> None:
    checks = {name for name in dir(ChannelConformance) if name.startswith("test_")}
    lies = [*LIES, *LATER_LIES]
    assert checks == {lie.check for lie in lies}
    assert LIARS.keys() - HONEST == {lie.told for lie in lies} | {"patience without end"}


def test_a_channel_that_never_answers_fails_the_check_and_does_not_hang_it(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "CHECK_MAX", timedelta(seconds=1))
    with pytest.raises(pytest.fail.Exception, match="did not end within 1 s"):
        run(SAYS, LiarRig("patience without end"), request, reaction=Reaction.STALL)


def test_a_reaction_that_a_peer_cannot_show_is_skipped_with_the_reason(
    request: pytest.FixtureRequest,
) -> None:
    class Limited(LiarRig):
        unplayable = {Reaction.STALL: "pigeons never stall"}  # noqa: RUF012 - read only

    with pytest.raises(pytest.skip.Exception, match="cannot be played: pigeons never stall"):
        run(SAYS, Limited("none"), request, reaction=Reaction.STALL)


def test_a_fate_that_a_provider_never_tells_is_skipped_with_the_reason(
    request: pytest.FixtureRequest,
) -> None:
    class Limited(LiarRig):
        unplayable = {Fate.LOST: "there are no hawks"}  # noqa: RUF012 - read only

    with pytest.raises(pytest.skip.Exception, match="cannot be played: there are no hawks"):
        run(IS_EVIDENCE, Limited("none"), request, fate=Fate.LOST)


class Unsearchable(LiarRig):
    unsearchable = "the loft keeps no tags"


@pytest.mark.parametrize("check", [WITHOUT, IN_ORDER, ONE_FIND])
def test_a_provider_that_is_asked_by_reference_alone_says_so(
    check: str, request: pytest.FixtureRequest
) -> None:
    run(check, Unsearchable("none, without a search"), request)


def test_a_question_that_cannot_be_asked_is_not_answered_with_none(
    request: pytest.FixtureRequest,
) -> None:
    with pytest.raises(AssertionError, match=ANSWERED):
        run(WITHOUT, Unsearchable("only what is known is found"), request)
    with pytest.raises(pytest.skip.Exception, match="cannot be searched: the loft keeps no tags"):
        run(SEVERAL, Unsearchable("none, without a search"), request)


@pytest.mark.parametrize(
    ("check", "lacks"),
    [(COMES, "receipts needs callback"), (ONE_FIND, "a look-up needs settle")],
)
def test_a_rig_that_lacks_what_its_channel_declares_is_told_so(
    check: str, lacks: str, request: pytest.FixtureRequest
) -> None:
    class Half(LiarRig):
        callback, settle = ChannelRig.callback, ChannelRig.settle

    with pytest.raises(NotImplementedError, match=lacks):
        run(check, Half("none"), request)


def test_every_check_says_what_it_claims() -> None:
    for name, check in inspect.getmembers(ChannelConformance, inspect.isfunction):
        if name.startswith("test_"):
            assert inspect.getdoc(check), name


def test_without_pytest_the_kit_says_in_a_sentence_what_is_missing() -> None:
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "try:\n    import sendledger.plugin.conformance\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "pytest is not installed; install pytest" in said
    assert len(said.splitlines()) == 1


def run(check: str, rig: ChannelRig, request: pytest.FixtureRequest, **arguments: Any) -> None:
    """Run one check as pytest would."""
    function = getattr(ChannelConformance(), check)
    wanted = inspect.signature(function).parameters.keys() - {"rig", *arguments}
    fixtures = {name: request.getfixturevalue(name) for name in wanted}
    function(rig=rig, **arguments, **fixtures)
