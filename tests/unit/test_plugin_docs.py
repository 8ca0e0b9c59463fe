"""The page for channel authors is complete, exact, and its channel runs."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugins_for_tests import everything, install
from plugins_for_tests.members import ASKED, CALLBACK, ENVELOPE, OBSERVED, candidate
from sendledger.plugin import (
    Addressee,
    Content,
    ContentFault,
    DestinationRefused,
    Outcome,
    SessionRefused,
)
from sendledger.plugin.checks import SPECS
from sendledger.plugin.host import PluginHost
from sendledger.plugin.port import ChannelPort

PAGE = (Path(__file__).parents[2] / "docs" / "channels.md").read_text(encoding="utf-8")


class Line:
    """A template of one variable, ``text``."""

    variables = frozenset({"text"})
    static = ("", "")

    def splice(self, values: Mapping[str, Any]) -> list[str]:
        return [self.render(values)]

    def render(self, values: Mapping[str, Any]) -> str:
        return str(values["text"])


CONTENT = Content(revision="spring-1", parts={"text": Line()})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("pager", None)


def signature(hook: str) -> str:
    colour = "async def" if inspect.iscoroutinefunction(SPECS[hook]) else "def"
    return f"{colour} {hook}{inspect.signature(SPECS[hook])}".replace("'", "")


@pytest.mark.parametrize("hook", SPECS)
def test_every_hook_is_documented_with_its_exact_signature(hook: str) -> None:
    assert f"`{signature(hook)}`" in PAGE.replace(r"\|", "|")
    assert inspect.getdoc(SPECS[hook])


def test_no_hook_is_documented_that_does_not_exist() -> None:
    assert set(re.findall(r"sendledger_\w+(?=\()", PAGE)) <= SPECS.keys()


async def test_every_hook_is_called_by_a_method_of_the_host(site: Path) -> None:
    install(site, "acme", everything="plugins_for_tests.everything")
    everything.called.clear()
    host = PluginHost()
    host.load_plugin("everything")
    host.build_channel("desk", "everything", host.settings_model("everything")())
    host.seal()
    desk = host.channel("desk")

    desk.destination("hall")
    desk.prepare(CONTENT)
    async with desk.session() as session:
        desk.classify(await desk.submit(session, ENVELOPE))
    desk.read_callback(CALLBACK)
    await desk.look_up([ASKED])
    await host.authorize([candidate()])
    await host.observed([OBSERVED])

    assert sorted(everything.called) == sorted(SPECS)
    assert not host.faults


# --- the example ---------------------------------------------------------------------------------


def pager(site: Path, port: int) -> ChannelPort:
    """Return the channel of the page, loaded as a user's would be."""
    example, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (site / "pager.py").write_text(example, encoding="utf-8")
    install(site, "acme-pager", pager="pager")
    host = PluginHost()
    host.load_plugin("pager", needed_by='channel "duty"')
    settings = host.settings_model("pager")(host="127.0.0.1", port=port)
    host.build_channel("duty", "pager", settings)
    host.seal()
    return host.channel("duty")


@asynccontextmanager
async def peer(answer: bytes, received: list[bytes]) -> AsyncIterator[int]:
    """Serve one line of *answer* for each line, then hang up; lends the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readline())
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"200 p-17\n", Outcome.ACCEPTED),
        (b"451 later\n", Outcome.TRANSIENT),
        (b"550 unknown\n", Outcome.PERMANENT),
        (b"?", Outcome.AMBIGUOUS),
        (b"", Outcome.AMBIGUOUS),
    ],
)
async def test_the_channel_of_the_page_hands_over(
    site: Path, answer: bytes, outcome: Outcome
) -> None:
    received: list[bytes] = []
    async with peer(answer, received) as port:
        duty = pager(site, port)
        number = duty.destination("555-0100")
        message = duty.prepare(CONTENT).write(addressee(number.address, "Bus is late"))

        async with duty.session() as session:
            evidence = await duty.submit(session, dataclasses.replace(ENVELOPE, message=message))

    assert received == [b"PAGE 5550100 Bus is late\n"]
    assert duty.classify(evidence).outcome is outcome
    assert evidence.literal == answer


async def test_the_channel_of_the_page_refuses_as_it_says(site: Path) -> None:
    async with peer(b"", []) as port:
        pass
    duty = pager(site, port)

    with pytest.raises(DestinationRefused):
        duty.destination("nobody")
    with pytest.raises(ContentFault, match="a page is a single line"):
        duty.prepare(CONTENT).write(addressee("5550100", "two\nlines"))
    with pytest.raises(SessionRefused) as refused:
        await duty.session().__aenter__()
    assert refused.value.evidence.stage == "connect"


def addressee(destination: str, text: str) -> Addressee:
    return Addressee(
        intent_key="0" * 64,
        attempt_number=1,
        token="a" * 44,
        destination=destination,
        variables={"text": text},
    )
