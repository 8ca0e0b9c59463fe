"""Where the files that come with Sendledger are, installed or in a checkout."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

Kind = Literal["config", "grafana"]


def shipped(kind: Kind) -> Traversable:
    """Return the folder of *kind*: from the wheel, else from the checkout beside ``core/``.

    Open files in it by name: in a checkout it may hold a developer's own. Raises
    ``FileNotFoundError`` when neither place has it.
    """
    installed = files("sendledger") / "_shipped" / kind
    if installed.is_dir():
        return installed
    checkout = Path(__file__).resolve().parents[2] / kind
    if checkout.is_dir():
        return checkout
    raise FileNotFoundError(f"the {kind} files were not shipped with sendledger; install it again")
