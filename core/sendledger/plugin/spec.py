"""The hook specifications: what pluggy is told. Each is called by name and by nobody but the host.

A *channel* hook is a method of a channel and is asked of that channel; a *module* hook is a function of a
plugin module. Plain channel hooks may also be functions of a deployment plugin, which then stands in
(``tryfirst=True``) or wraps (``wrapper=True``); what is async may not. Arguments are passed by name,
and an implementation may leave out those it does not need.
"""

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
from sendledger.plugin.receipts import Asked, CallbackRequest, Found, Receipt

PROJECT = "sendledger"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


# --- at start-up -----------------------------------------------------------------------------------


@hookspec(firstresult=True)
def sendledger_channel(name: str, settings: Any) -> Channel | None:
    """Build a channel. A module hook, asked once for each channel that names this plugin.

    *name* is the channel's configured name; *settings* an instance of the module's ``settings_model``.
    No network and no secret in an exception: whatever is raised stops start-up with its type and line.
    """


# --- at planning -----------------------------------------------------------------------------------


@hookspec(firstresult=True)
def sendledger_destination(text: str) -> Destination | None:
    """Validate and normalise a destination. A channel hook, pure, called for every recipient planned.

    Raise ``DestinationRefused`` with a stable reason and a remedy, neither of which quotes *text*.
    """


@hookspec(firstresult=True)
def sendledger_prepare(content: Content) -> Writer | None:
    """Compile a content revision. A channel hook, pure, called once per revision and process.

    Raise ``ContentFault`` when no message can ever be written from it. The writer then splices one
    addressee at a time in, without I/O; what its ``write`` raises holds that addressee alone.
    """


# --- at submission ---------------------------------------------------------------------------------


@hookspec(firstresult=True)
def sendledger_session() -> AbstractAsyncContextManager[Session] | None:
    """Lend a ready session. A channel hook, entered before each attempt is opened and left after it.

    Connecting, TLS, authentication and the probe of a kept connection belong into entering, which
    raises ``SessionRefused`` with the evidence: nothing is spent and nothing in doubt. Plain: it
    returns the context at once, as a function under ``@asynccontextmanager`` does.
    """


@hookspec(firstresult=True)
async def sendledger_submit(session: Session, envelope: Envelope) -> Evidence | None:
    """Hand one envelope over and return what was read. A channel hook, called with the attempt committed.

    Whatever the peer does is evidence, not an exception. Set ``handed_over`` from the moment the write that
    could complete the handoff was given to the transport, even if that write fails. An exception
    becomes evidence of an unknown handoff; cancellation means that the time is up and must not be
    swallowed.
    """


@hookspec(firstresult=True)
def sendledger_classify(channel: str, evidence: Evidence) -> Classification | None:
    """Say what evidence means, or None for no opinion. A channel and a module hook; pure.

    Asked in this order until somebody answers: deployment plugins, the configured rule table, the
    channel. Core keeps the answer to what can be true: unanswered evidence stays ambiguous. An
    implementation that raises is counted and passed over.
    """


@hookspec(firstresult=True)
def sendledger_read_callback(request: CallbackRequest) -> Sequence[Receipt] | None:
    """Verify a receipt that came over HTTP and read it. A channel hook, pure.

    Every receipt is about the attempt that the token in the path names. Raise ``CallbackRefused`` for
    what was not signed by the provider or cannot be read; an empty answer acknowledges and stores nothing.
    """


@hookspec(firstresult=True)
async def sendledger_look_up(attempts: Sequence[Asked]) -> Sequence[Found] | None:
    """Ask the provider what it knows of *attempts*. A channel hook, never called while dispatching.

    One answer per attempt, in their order. What cannot be asked is ``Found(failed=...)``, not an exception.
    """


@hookspec
async def sendledger_authorize(candidates: Sequence[Candidate]) -> Sequence[Verdict]:  # type: ignore[empty-body]
    """Say which candidates may go now. A module hook, asked of all plugins before a slot is taken.

    One verdict per candidate, in their order; of several plugins the strictest wins: deny, hold, wait,
    go. Time is ``candidate.now``. Raising, a wrong answer or exceeding the time limit holds all
    candidates under the rule ``policy.failing``.
    """


# --- after the commit ------------------------------------------------------------------------------


@hookspec
def sendledger_observed(observations: Sequence[Observed]) -> None:
    """Be told what was committed. A module hook, called for all plugins, each alone in its own thread.

    It can change no outcome. Raising or exceeding the time limit is counted; while a call is still
    running, further batches pass this plugin by. Not everything is told across a crash: the ledger is.
    """
