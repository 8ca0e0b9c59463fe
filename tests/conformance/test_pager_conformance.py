"""The channels of the page for authors keep what every channel must, by the rigs of the same page."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from plugins_for_tests import install
from sendledger.plugin.conformance import ChannelConformance, ChannelRig
from sendledger.plugin.conformance.receipts import ReceiptChecks

PAGE = (Path(__file__).parents[2] / "docs" / "channels.md").read_text(encoding="utf-8")
BLOCKS = ("pager", "pager_reports", "pager_rig", "pager_reports_rig")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a module of each block of the page, and install the two that are plugins."""
    written = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for name, block in zip(BLOCKS, written, strict=True):
        (tmp_path / f"{name}.py").write_text(block, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "acme-pager", pager="pager", pager_reports="pager_reports")
    yield
    for name in BLOCKS:
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("page")
class TestPager(ChannelConformance):
    @pytest.fixture
    def rig(self) -> ChannelRig:
        made: ChannelRig = import_module("pager_rig").PagerRig()
        return made


@pytest.mark.usefixtures("page")
class TestReportingPager(ReceiptChecks):
    """What the second one has and the first has not."""

    @pytest.fixture
    def rig(self) -> ChannelRig:
        made: ChannelRig = import_module("pager_reports_rig").ReportingRig()
        return made
