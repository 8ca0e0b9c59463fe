"""Where a channel is tried: the real host, its peer, and letters to a few people who do not exist."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import html
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec
from urllib.parse import urlsplit

import pytest

from sendledger.ledger.evidence import Evidence
from sendledger.ledger.rule_table import parse_rules
from sendledger.plugin.channel import (
    Addressee,
    Content,
    Envelope,
    Session,
    SessionRefused,
    Template,
    Writer,
)
from sendledger.plugin.conformance.rig import ChannelRig, Fate, Flaw, Peer, Reaction, Taken
from sendledger.plugin.host import PluginHost
from sendledger.plugin.port import ChannelPort
from sendledger.plugin.receipts import Asked, CallbackRequest, callback_url
from sendledger.settings.yaml_text import parse_yaml, plain
from sendledger.shipped import shipped

CHANNEL = "under-test"
PUBLIC_URL = "https://hooks.school.example"
CHECK_MAX = timedelta(seconds=60)
SOON = timedelta(seconds=10)
"""How long is waited for what comes by itself: a connection that closes, a place that is given back."""

PATIENT = timedelta(seconds=20)
"""How long a channel waits for an answer that will come: longer than any busy machine takes."""

HURRIED = timedelta(seconds=1.5)
"""How long a channel waits for an answer that will not come."""

HANDOFF_MAX = timedelta(hours=1)
"""How long a handoff may have taken that is asked about."""

NAME, REMARK = "Quillon Brackenridge", "zebra-lantern-77"
"""Words that stand nowhere else, so that they can be searched for."""

P = ParamSpec("P")


def bounded(check: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run *check* in a loop of its own, and fail it when it does not end or leaves an exception behind."""

    @functools.wraps(check)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(_within(check(*args, **kwargs)))

    return run


async def _within(check: Coroutine[Any, Any, None]) -> None:
    lost: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: lost.append(_described(context)))
    await _limited(check, CHECK_MAX, f"did not end within {CHECK_MAX.total_seconds():g} s")
    assert not lost, "an exception was left to the event loop"


def _described(context: Mapping[str, Any]) -> str:
    return type(context.get("exception", context["message"])).__name__


async def until(condition: Callable[[], object], sentence: str) -> None:
    """Wait for *condition*; what never comes true fails the check with *sentence*."""
    deadline = asyncio.get_running_loop().time() + SOON.total_seconds()
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, sentence
        await asyncio.sleep(0.01)


async def soon(step: Awaitable[Any], sentence: str) -> None:
    """Wait for *step*; what takes too long fails the check with *sentence*."""
    await _limited(step, SOON, sentence)


async def _limited(step: Awaitable[Any], within: timedelta, sentence: str) -> None:
    limit = asyncio.timeout(within.total_seconds())
    try:
        async with limit:
            await step
    except TimeoutError:
        if not limit.expired():
            raise
        pytest.fail(sentence)


# --- what is written -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SampleTemplate:
    """A compiled part, as core would compile it: ``{{name}}`` is spliced in, escaped where it is HTML."""

    text: str
    is_html: bool

    @property
    def variables(self) -> frozenset[str]:
        """The names in the text."""
        return frozenset(re.findall(r"\{\{(\w+)\}\}", self.text))

    @property
    def static(self) -> tuple[str, ...]:
        """Nothing: all of the text is taken for one that values change."""
        return ("", "")

    def splice(self, values: Mapping[str, Any]) -> list[str]:
        """Return the whole text."""
        return [self.render(values)]

    def render(self, values: Mapping[str, Any]) -> str:
        """Splice *values* in, once."""
        spliced = functools.partial(self._value, values)
        return re.sub(r"\{\{(\w+)\}\}", spliced, self.text)

    def _value(self, values: Mapping[str, Any], found: re.Match[str]) -> str:
        text = str(values[found[1]])
        return html.escape(text) if self.is_html else text


def content_of(rig: ChannelRig, port: ChannelPort) -> Content:
    """Return the content of every letter of the kit."""
    kinds = port.capabilities.parts
    texts = rig.parts or dict.fromkeys(kinds, "Dear {{name}}, about {{remark}}: the bus is late.")
    parts: dict[str, Template] = {
        part: SampleTemplate(text, kinds[part]) for part, text in texts.items()
    }
    return Content(revision="5e" * 32, parts=parts, settings=rig.content_settings)


# --- the bench -----------------------------------------------------------------------------------


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - providers tell the time of what they took


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A built channel behind its port, and the peer its settings point at."""

    rig: ChannelRig
    peer: Peer
    host: PluginHost
    port: ChannelPort
    writer: Writer = field(init=False)
    began_at: datetime = field(default_factory=_now, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "writer", self.port.prepare(content_of(self.rig, self.port)))

    def addressee(self, number: int = 0, **variables: str) -> Addressee:
        """Return the addressee at a good destination of the rig, with a name and a remark."""
        destination = self.port.destination(self.rig.good[number % len(self.rig.good)])
        return Addressee(
            intent_key=f"{number:032x}",
            attempt_number=1,
            token=f"{number:x}".rjust(44, "a").translate(_TOKEN_DIGITS),
            destination=destination.address,
            variables={"name": NAME, "remark": REMARK} | variables,
        )

    def envelope(self, number: int = 0, **variables: str) -> Envelope:
        """Return what is handed over for :meth:`addressee`."""
        return self.envelope_of(self.addressee(number, **variables))

    def envelope_of(self, whom: Addressee) -> Envelope:
        """Return what is handed over for *whom*."""
        return Envelope(
            intent_key=whom.intent_key,
            attempt_number=whom.attempt_number,
            token=whom.token,
            destination=whom.destination,
            message=self.writer.write(whom),
            callback_url=self._address_of(whom.token),
        )

    def _address_of(self, token: str) -> str | None:
        return callback_url(PUBLIC_URL, CHANNEL, token) if self.port.reads_callbacks else None

    async def hand_over(self, envelope: Envelope | None = None) -> Evidence:
        """Return the evidence of one attempt, that of a refused session included."""
        try:
            async with self.port.session() as session:
                return await self.port.submit(session, envelope or self.envelope())
        except SessionRefused as refused:
            return refused.evidence

    async def submit(self, session: Session, number: int = 0) -> Evidence:
        """Return the evidence of one submission on a lent session."""
        return await self.port.submit(session, self.envelope(number))

    async def take(self, envelope: Envelope | None = None) -> Taken:
        """Hand over and return what the peer took of it."""
        before = len(self.peer.taken)
        await self.hand_over(envelope)
        taken = self.peer.taken[before:]
        assert len(taken) == 1, "a willing peer did not take the message once"
        return taken[0]

    def play(self, reaction: Reaction) -> None:
        """Let the peer react so, or skip the test where it cannot."""
        self.need(reaction)
        self.peer.play(reaction)

    def need(self, *shown: Reaction | Fate | Flaw) -> None:
        """Skip the test where the protocol cannot show one of these."""
        for each in shown:
            if each in self.rig.unplayable:
                pytest.skip(f"cannot be played: {self.rig.unplayable[each]}")

    def callback(self, taken: Taken, fate: Fate, flaw: Flaw | None = None) -> CallbackRequest:
        """Return what the provider posts as core passes it on, or skip the test where it cannot."""
        self.need(fate, *([] if flaw is None else [flaw]))
        posted = self.rig.callback(self.peer, taken, fate, flaw)
        return CallbackRequest(
            token=urlsplit(posted.url).path.rpartition("/")[2],
            url=posted.url,
            headers={name.lower(): value for name, value in posted.headers.items()},
            body=posted.body,
        )

    def asked(
        self, envelope: Envelope, reference: str | None = None, *, later: timedelta = timedelta()
    ) -> Asked:
        """Return the attempt of *envelope* as its provider is asked about it, if it was made so much later."""
        opened_at = self.began_at + later
        return Asked(
            envelope=envelope,
            provider_reference=reference,
            opened_at=opened_at,
            result_due_at=opened_at + HANDOFF_MAX,
        )


_TOKEN_DIGITS = str.maketrans("0189", "wxyz")
"""Tokens are written in base32, which lacks these digits."""


@asynccontextmanager
async def bench(rig: ChannelRig, *, answer_within: timedelta = PATIENT) -> AsyncIterator[Bench]:
    """Lend a bench; the host must have had nothing to complain about when the check is over."""
    async with rig.peer() as peer:
        host = build(rig, rig.settings(peer, answer_within=answer_within))
        try:
            yield Bench(rig=rig, peer=peer, host=host, port=host.channel(CHANNEL))
        finally:
            await host.aclose()
        broken = sorted({hook for _, hook in host.faults})
        assert not broken, f"the host had to make good what broke in {', '.join(broken)}"


def build(rig: ChannelRig, settings: Mapping[str, Any]) -> PluginHost:
    """Return the sealed host of the rig's channel alone, with the shipped rules it asks for."""
    host = PluginHost()
    host.load_plugin(rig.plugin, needed_by=f'the conformance rig "{type(rig).__name__}"')
    block = host.settings_model(rig.plugin).model_validate(settings)
    host.build_channel(CHANNEL, rig.plugin, block)
    host.seal()
    if table := host.channel(CHANNEL).capabilities.classification:
        file = shipped("config") / "classification" / f"{table}.yaml"
        rules = plain(parse_yaml(file.read_text(encoding="utf-8"), file=file.name))
        host.set_rules(CHANNEL, parse_rules(rules, file.name))
    return host


def shown(evidence: Evidence) -> str:
    """Return what a log would show of *evidence*: everything but what the peer said."""
    return repr(dataclasses.replace(evidence, literal=b""))
