"""The conformance kit: what any channel must keep, as tests that its author runs.

Say in a :class:`ChannelRig` how to build the channel and how its peer is made to behave, and subclass
:class:`ChannelConformance`::

    class TestPigeon(ChannelConformance):
        @pytest.fixture
        def rig(self) -> PigeonRig:
            return PigeonRig()

Each test is one claim, and its docstring says it. The kit needs pytest, which Sendledger does not; it
needs no plugin of pytest's, for each test has a loop and a time limit of its own.
"""

from __future__ import annotations

from pkgutil import iter_modules

try:
    import pytest
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "sendledger.plugin.conformance is a set of pytest tests, and pytest is not installed; "
        "install pytest beside your channel",
        name="pytest",
    ) from None

# The modules by name: the package itself is imported already, which pytest would warn of.
pytest.register_assert_rewrite(*(f"{__name__}.{each.name}" for each in iter_modules(__path__)))

from sendledger.plugin.conformance.destinations import DestinationChecks  # noqa: E402
from sendledger.plugin.conformance.discretion import DiscretionChecks  # noqa: E402
from sendledger.plugin.conformance.enclosing import EnclosingChecks  # noqa: E402
from sendledger.plugin.conformance.look_ups import LookUpChecks  # noqa: E402
from sendledger.plugin.conformance.meaning import MeaningChecks  # noqa: E402
from sendledger.plugin.conformance.promises import PromiseChecks  # noqa: E402
from sendledger.plugin.conformance.receipts import ReceiptChecks  # noqa: E402
from sendledger.plugin.conformance.rig import (  # noqa: E402
    Callback,
    ChannelRig,
    Fate,
    Flaw,
    Peer,
    Reaction,
    Taken,
)
from sendledger.plugin.conformance.sessions import SessionChecks  # noqa: E402
from sendledger.plugin.conformance.submission import SubmissionChecks  # noqa: E402
from sendledger.plugin.conformance.writing import WritingChecks  # noqa: E402

__all__ = [
    "Callback",
    "ChannelConformance",
    "ChannelRig",
    "Fate",
    "Flaw",
    "Peer",
    "Reaction",
    "Taken",
]


class ChannelConformance(
    PromiseChecks,
    DestinationChecks,
    WritingChecks,
    EnclosingChecks,
    SessionChecks,
    SubmissionChecks,
    MeaningChecks,
    DiscretionChecks,
    ReceiptChecks,
    LookUpChecks,
):
    """Everything that is asked of a channel. Subclass it as ``Test...`` and define the fixture ``rig``."""

    @pytest.fixture
    def rig(self) -> ChannelRig:
        """Return how the channel under test is built and its peer is played."""
        pytest.fail(f"{type(self).__name__} has no rig: define the fixture rig, which returns one")
