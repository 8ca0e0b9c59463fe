"""Ports and values for tests of the host's parts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from plugins_for_tests.recorder import Recorder, RecorderSettings
from sendledger.plugin import (
    Asked,
    CallbackRequest,
    Candidate,
    Channel,
    Envelope,
    Evidence,
    Lane,
    Observed,
)
from sendledger.plugin.checks import channel_member, module_member
from sendledger.plugin.faults import Faults
from sendledger.plugin.port import ChannelPort

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)

ENVELOPE = Envelope(
    intent_key="0" * 64,
    attempt_number=1,
    token="a" * 44,
    destination="pupil@school.example",
    message=b"hello",
)
CALLBACK = CallbackRequest(
    token="a" * 44,
    url="https://hooks.example/callbacks/desk/t",
    headers={},
    body=b"MessageStatus=sent",
)
ASKED = Asked(envelope=ENVELOPE, provider_reference=None, opened_at=NOW, result_due_at=NOW + HOUR)
OBSERVED = Observed(
    intent_key="0" * 64,
    channel="desk",
    seq=1,
    attempt_number=1,
    source="channel",
    outcome="accepted",
    ruling=None,
    scope=None,
    rule="default.2yz",
    status="submitted",
)
SECRET = "pupil@school.example"
ACCEPTED = Evidence(stage="dot", handed_over=True, answered=True, reply_code=250)


class Base(Recorder):
    """A recorder of which tests break one promise at a time."""

    def __init__(self) -> None:
        super().__init__(RecorderSettings())


def recorder() -> Recorder:
    return Recorder(RecorderSettings())


def port(channel: Channel, *modules: object, faults: Faults | None = None) -> ChannelPort:
    """Return the sealed channel ``desk``; the modules are named ``module0``, ``module1``, ..."""
    deployment = [module_member(f"module{n}", module) for n, module in enumerate(modules)]
    own = channel_member("desk", channel)
    return ChannelPort(channel, own, deployment, Faults() if faults is None else faults)


def candidate(**changes: Any) -> Candidate:
    values: dict[str, Any] = {
        "intent_key": "0" * 64,
        "channel": "desk",
        "purpose": "notice",
        "lane": Lane.TRANSACTIONAL,
        "now": NOW,
        "not_after": None,
        **changes,
    }
    return Candidate(**values)


def candidates(count: int) -> Sequence[Candidate]:
    return [candidate(intent_key=f"{n:064x}") for n in range(count)]
