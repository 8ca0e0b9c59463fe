"""The bundled SMTP channel keeps what every channel must."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.smtp_rig import SmtpRig
from sendledger.plugin.conformance import ChannelConformance


class TestSmtp(ChannelConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> SmtpRig:
        return SmtpRig(tmp_path)
