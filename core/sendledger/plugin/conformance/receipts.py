"""Receipts: only what the provider signed for this attempt is read, and it is read byte for byte."""

from __future__ import annotations

import dataclasses
import functools
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from traceback import format_exception

import pytest

from sendledger.plugin.conformance.bench import CHANNEL, PATIENT, Bench, bounded, build, shown
from sendledger.plugin.conformance.discretion import assert_nothing_said, secrets_of
from sendledger.plugin.conformance.fates import assert_told, identities, playable, receiving
from sendledger.plugin.conformance.meaning import RULE
from sendledger.plugin.conformance.rig import ChannelRig, Fate, Flaw, Taken
from sendledger.plugin.port import ChannelPort
from sendledger.plugin.receipts import CallbackRefused, CallbackRequest, Receipt

NOT_THEIRS, NOT_READABLE = 403, 400
LONG = 60_000
GARBAGE = (
    b"",
    b"\0",
    b"\xff\xfe\xfd",
    b"%",
    b"{",
    b"null",
    b"[" * LONG,
    b"a=1&" * (LONG // 4),
    b"=" * LONG,
)
"""What anybody may post."""

OUTSIDE = ("open", "socket.", "subprocess.", "os.", "sqlite3.", "urllib.")
"""How the audit events (PEP 578) of what asks the system for something begin."""


class ReceiptChecks:
    """``sendledger_read_callback`` verifies, reads, and touches nothing."""

    @bounded
    async def test_receipts_come_to_the_address_of_the_attempt(self, rig: ChannelRig) -> None:
        """The provider is given it unchanged; where nobody listens it is given none, and takes the message."""
        async with receiving(rig) as on:
            envelope = on.envelope()
            request = _genuine(on, await on.take(envelope))
            assert request.url.partition("?")[0] == envelope.callback_url, (
                "receipts come to another address than that of the envelope"
            )
            await on.take(dataclasses.replace(envelope, callback_url=None))

    @pytest.mark.parametrize("fate", Fate)
    @bounded
    async def test_a_receipt_is_evidence_of_what_was_told(
        self, rig: ChannelRig, fate: Fate
    ) -> None:
        """Byte for byte, of the very message that was submitted, and never less than an acceptance."""
        async with receiving(rig) as on:
            submitted = await on.hand_over()
            request = on.callback(on.peer.taken[-1], fate)
            receipts = _read(on.port, request)
            assert receipts, "what the provider told is not kept"
            for receipt in receipts:
                literal = receipt.evidence.literal
                assert literal in request.body, "the literal is not what the provider posted"
                assert_told(on, receipt, fate, submitted)

    @bounded
    async def test_an_event_has_one_identity_however_often_it_is_told(
        self, rig: ChannelRig
    ) -> None:
        """A repeat changes nothing, and nothing new is taken for a repeat."""
        async with receiving(rig) as on:
            taken = await on.take()
            first, again = (
                [identities(_read(on.port, request)) for request in _all(on, taken)]
                for _ in range(2)
            )
            assert again == first, "the same event is another one when it is told again"
            each = [identity for event in first for identity in event]
            assert len(set(each)) == len(each), "different events share an identity"

    @bounded
    async def test_receipts_are_read_in_any_order_and_before_the_answer(
        self, rig: ChannelRig
    ) -> None:
        """What one says is in its request alone: a process that submitted nothing reads the same."""
        async with receiving(rig) as on:
            requests = _all(on, await on.take())
            found = [_read(on.port, request) for request in requests]
            late = [_read(on.port, request) for request in reversed(requests)]
            assert late[::-1] == found, "a receipt depends on what was read before it"
            other = build(rig, rig.settings(on.peer, answer_within=PATIENT)).channel(CHANNEL)
            elsewhere = [_read(other, request) for request in requests]
            assert elsewhere == found, "another process reads another receipt"

    @pytest.mark.parametrize("flaw", Flaw)
    @bounded
    async def test_what_is_not_genuine_is_refused(self, rig: ChannelRig, flaw: Flaw) -> None:
        """Nothing counts but our provider's word about our account, and it must say what receipts say."""
        async with receiving(rig) as on:
            request = on.callback(await on.take(), playable(on)[0], flaw)
            status = NOT_READABLE if flaw is Flaw.BROKEN_FORM else NOT_THEIRS
            _assert_refused(on.port, request, status)

    @bounded
    async def test_an_altered_receipt_is_refused(self, rig: ChannelRig) -> None:
        """What is signed is all of what was posted."""
        async with receiving(rig) as on:
            request = _genuine(on, await on.take())
            for body in (request.body + b"\n", b" " + request.body, request.body[:-1]):
                _assert_refused(on.port, dataclasses.replace(request, body=body), NOT_THEIRS)

    @bounded
    async def test_a_receipt_settles_no_other_attempt(self, rig: ChannelRig) -> None:
        """A genuine one that is posted to the address of another attempt is no receipt of that."""
        async with receiving(rig) as on:
            request = _genuine(on, await on.take())
            token = on.addressee(1).token
            url = request.url.replace(request.token, token)
            elsewhere = dataclasses.replace(request, token=token, url=url)
            _assert_refused(on.port, elsewhere, NOT_THEIRS)

    @pytest.mark.parametrize("number", range(len(GARBAGE)))
    @bounded
    async def test_garbage_is_refused(self, rig: ChannelRig, number: int) -> None:
        """Anybody can post anything, with the headers of the provider or without."""
        async with receiving(rig) as on:
            genuine = _genuine(on, await on.take())
            for headers in ({}, dict(genuine.headers)):
                request = dataclasses.replace(genuine, headers=headers, body=GARBAGE[number])
                _assert_refused(on.port, request)

    @bounded
    async def test_reading_a_receipt_touches_nothing(self, rig: ChannelRig) -> None:
        """It happens while the provider waits: nobody is asked, and the request stays as it came."""
        async with receiving(rig) as on:
            request = _genuine(on, await on.take())
            headers = dict(request.headers)
            _read(on.port, request)  # what is loaded only once may be loaded now
            assert request.headers == headers, "reading a receipt changes the request"
            with _listening() as heard:
                _read(on.port, request)
            assert not heard, f"reading a receipt asks the system: {', '.join(heard)}"

    @pytest.mark.parametrize("flaw", [None, *Flaw])
    def test_nothing_of_a_person_is_said_of_a_receipt(
        self,
        rig: ChannelRig,
        flaw: Flaw | None,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """No log line, refusal or fact holds a destination, a token or the body; only the literal may."""
        caplog.set_level(logging.DEBUG)
        text, secrets = _told(rig, flaw)
        for secret in secrets:
            assert secret not in text, "what is shown of a receipt names a person or an attempt"
        assert_nothing_said(secrets, caplog, capfd)


def _genuine(on: Bench, taken: Taken) -> CallbackRequest:
    return on.callback(taken, playable(on)[0])


def _all(on: Bench, taken: Taken) -> list[CallbackRequest]:
    """Return one request for each fate that the provider can tell."""
    return [on.callback(taken, fate) for fate in playable(on)]


def _read(port: ChannelPort, request: CallbackRequest) -> Sequence[Receipt]:
    """Read what is genuine."""
    try:
        return port.read_callback(request)
    except CallbackRefused:
        pytest.fail("a genuine receipt is refused")


def _assert_refused(port: ChannelPort, request: CallbackRequest, *statuses: int) -> None:
    refused = _refusal(port, request)
    assert RULE.fullmatch(refused.reason), "a reason is one lower-case word"
    assert refused.status in (statuses or (NOT_THEIRS, NOT_READABLE)), (
        "403 is for who sent it, 400 for what it says"
    )


def _refusal(port: ChannelPort, request: CallbackRequest) -> CallbackRefused:
    try:
        port.read_callback(request)
    except CallbackRefused as refused:
        return refused
    pytest.fail("what is no receipt of this attempt is read as one")


def _told(rig: ChannelRig, flaw: Flaw | None) -> tuple[str, tuple[str, ...]]:
    """Return what is shown of a receipt, and what must not be."""
    found: list[str] = []
    secrets: list[str] = []

    @bounded
    async def read() -> None:
        async with receiving(rig) as on:
            taken = await on.take()
            request = on.callback(taken, playable(on)[0], flaw)
            secrets.extend((*secrets_of(on), request.token, request.body.decode("latin-1")))
            if flaw is not None and taken.reference is not None:
                secrets.append(taken.reference)
            found.append(_shown(on.port, request))

    read()
    return found[0], tuple(secrets)


def _shown(port: ChannelPort, request: CallbackRequest) -> str:
    """Return what a ledger keeps in sight of a receipt, or all that a traceback tells of its refusal."""
    try:
        receipts = port.read_callback(request)
    except CallbackRefused as refused:
        return f"{refused!r} {refused.reason} {''.join(format_exception(refused))}"
    return " ".join(f"{receipt.identity} {shown(receipt.evidence)}" for receipt in receipts)


class _Witness:
    """Hears what the system is asked for while somebody listens."""

    def __init__(self) -> None:
        self.heard: list[str] | None = None

    def __call__(self, event: str, _arguments: object) -> None:
        if self.heard is not None and event.startswith(OUTSIDE):
            self.heard.append(event)


@functools.cache
def _witness() -> _Witness:
    witness = _Witness()
    sys.addaudithook(witness)  # for as long as the process lives: there is no way to take one away
    return witness


@contextmanager
def _listening() -> Iterator[list[str]]:
    witness = _witness()
    heard = witness.heard = []
    try:
        yield heard
    finally:
        witness.heard = None
