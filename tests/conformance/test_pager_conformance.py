"""The channel of the page for authors keeps what every channel must, by the rig of the same page."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from plugins_for_tests import install
from sendledger.plugin.conformance import ChannelConformance, ChannelRig

PAGE = (Path(__file__).parents[2] / "docs" / "channels.md").read_text(encoding="utf-8")


class TestPager(ChannelConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChannelRig]:
        channel, rig = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        (tmp_path / "pager.py").write_text(channel, encoding="utf-8")
        (tmp_path / "pager_rig.py").write_text(rig, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        install(tmp_path, "acme-pager", pager="pager")
        made: ChannelRig = import_module("pager_rig").PagerRig()
        yield made
        for module in ("pager", "pager_rig"):
            sys.modules.pop(module, None)
