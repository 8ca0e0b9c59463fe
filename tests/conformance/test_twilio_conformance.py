"""The bundled SMS channel keeps what every channel must."""

from __future__ import annotations

import pytest

from conformance.twilio_rig import TwilioRig
from sendledger.plugin.conformance import ChannelConformance


class TestTwilio(ChannelConformance):
    @pytest.fixture
    def rig(self) -> TwilioRig:
        return TwilioRig()
