"""What a deployment says about its loft."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from sendledger.plugin import PositiveDuration, Secret, SettingsModel


class PigeonSettings(SettingsModel):
    """Where the loft is, how patient we are with it, and how many pigeons fly at once.

    ``secret`` is what the loft signs with. ``again_after`` is the earliest next attempt when it said *not now*.
    """

    host: str
    port: Annotated[int, Field(ge=1, le=65_535)]
    secret: Secret
    loft: str = "loft"
    patience: PositiveDuration = timedelta(seconds=30)
    again_after: PositiveDuration = timedelta(seconds=30)
    pigeons_max: Annotated[int, Field(ge=1, le=100)] = 4
