"""A channel that knows nothing of this checkout, and of which this checkout knows nothing, conforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins_for_tests import install
from sendledger.plugin.conformance import ChannelConformance
from sendledger_carrierpigeon.testing import PigeonRig


class TestPigeon(ChannelConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PigeonRig:
        monkeypatch.syspath_prepend(str(tmp_path))
        install(tmp_path, "sendledger-carrierpigeon", carrierpigeon="sendledger_carrierpigeon")
        return PigeonRig()
