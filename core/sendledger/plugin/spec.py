"""The hook specifications: what pluggy is told. Each is called by name and by nobody but the host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pluggy

from sendledger.ledger.evidence import Classification, Evidence
from sendledger.plugin.channel import (
    Candidate,
    Channel,
    Content,
    Destination,
    Envelope,
    Observed,
    Session,
    Verdict,
    Writer,
)

PROJECT = "sendledger"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def sendledger_channel(name: str, settings: Any) -> Channel | None:
    """At start, for the plugin a channel names: build it from its typed settings, without network."""


@hookspec(firstresult=True)
def sendledger_destination(text: str) -> Destination | None:
    """At planning, of one channel: validate and normalise, or raise ``DestinationRefused``."""


@hookspec(firstresult=True)
def sendledger_prepare(content: Content) -> Writer | None:
    """Once per content revision, of one channel: compile it; the writer splices recipients in."""


@hookspec(firstresult=True)
def sendledger_session() -> AbstractAsyncContextManager[Session] | None:
    """Before each attempt, of one channel: an async context that lends a ready session."""


@hookspec(firstresult=True)
async def sendledger_submit(session: Session, envelope: Envelope) -> Evidence | None:
    """With the attempt committed, of one channel: hand over, return literal evidence."""


@hookspec(firstresult=True)
def sendledger_classify(channel: str, evidence: Evidence) -> Classification | None:
    """After a submission, deployment plugins first: what does it mean? Pure; stops at the first answer."""


@hookspec
async def sendledger_authorize(candidates: Sequence[Candidate]) -> Sequence[Verdict]:  # type: ignore[empty-body]
    """Before a slot is taken, of all: may these go now? Same length, same order; the strictest wins."""


@hookspec
def sendledger_observed(observations: Sequence[Observed]) -> None:
    """After a commit, of all: be told. Time-limited; can never change an outcome."""
