"""The pigeon channel keeps what every channel must."""

from __future__ import annotations

import pytest

from sendledger.plugin.conformance import ChannelConformance
from sendledger_carrierpigeon.testing import PigeonRig


class TestPigeon(ChannelConformance):
    @pytest.fixture
    def rig(self) -> PigeonRig:
        return PigeonRig()
