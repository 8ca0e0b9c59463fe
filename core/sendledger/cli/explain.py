"""``sendledger explain``: one intent, every step with the evidence and the rule behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sendledger.bootstrap import open_desk
from sendledger.cli.console import page
from sendledger.cli.errors import UsageFault
from sendledger.cli.options import Config, Json, config_path, run
from sendledger.cli.timeline import Story, document, show
from sendledger.store import ledger_rows, views

PREFIX = re.compile(r"[0-9a-f]{4,32}")
HIDDEN = b"[hidden]"
_ADDRESS = re.compile(rb"[^\s<>()\"',;]+@[^\s<>()\"',;]+")
# As a form writes it.
_IN_FORM = re.compile(rb"[^\s&=]+%40[^\s&]+")
# What providers quote of a message in the JSON of their answers.
_QUOTED = re.compile(rb'(?<="body":) *"(?:[^"\\]|\\.)*"')
Key = Annotated[
    str, typer.Argument(metavar="INTENT", help="An intent key, or its first digits (at least 4).")
]
Who = Annotated[
    bool,
    typer.Option("--who", help="Also show the recipient, the destination, and replies in full."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(explain)


def explain(
    intent: Key,
    config: Config = None,
    who: Who = False,  # noqa: FBT002
    as_json: Json = False,  # noqa: FBT002
) -> None:
    """Tell what is known of one intent: each step, the evidence and rule behind it, what is awaited."""
    story = run(_read(config_path(config), intent.strip().lower(), who=who))
    if as_json:
        print(json.dumps(document(story), indent=2))  # noqa: T201
    else:
        show(page(), story)


async def _read(config: Path, prefix: str, *, who: bool) -> Story:
    if not PREFIX.fullmatch(prefix):
        raise UsageFault("an intent key is 4 to 32 hexadecimal digits, such as 3f2a90c1")
    async with open_desk(config) as desk, desk.database.connection() as connection:
        found = await views.find_intents(connection, prefix)
        if not found:
            raise UsageFault(f"no intent key begins with {prefix}")
        if len(found) > 1:
            raise UsageFault(f"several intent keys begin with {prefix}: give more digits")
        intent_id = found[0].intent_id
        whose = await views.load_recipient(connection, intent_id)
        recipient = whose and whose[:2]
        literals = await views.load_literals(connection, intent_id)
        port = desk.host.channels.get(found[0].channel)
        return Story(
            intent=found[0],
            attempts=(await ledger_rows.load_attempts(connection, [intent_id])).get(intent_id, []),
            observations=(await ledger_rows.load_observations(connection, [intent_id])).get(
                intent_id, []
            ),
            literals=literals if who else discreet(literals, recipient),
            who=recipient if who else None,
            places=whose.attachment_places if who and whose else None,
            now=(await desk.database.server()).now,
            units=(port and port.capabilities.units) or "units",
        )


def discreet(
    literals: Mapping[int, bytes], recipient: tuple[str, str] | None
) -> Mapping[int, bytes]:
    """Take addresses and the recipient's own out of replies: servers quote whom they refuse.

    Of an address the local part is enough to know somebody by; a number has none, and goes whole, its
    plus sign written in whatever way. What they quote of the message goes, too.
    """
    patterns = [_ADDRESS, _IN_FORM, _QUOTED]
    if recipient is not None:
        patterns.append(_whom(recipient[1]))
    return {seq: _hide(patterns, literal) for seq, literal in literals.items()}


def _whom(destination: str) -> re.Pattern[bytes]:
    if re.fullmatch(r"\+[0-9]+", destination):
        return re.compile(rb"(?:\+|%2B)?" + destination[1:].encode())
    name = re.escape(destination.rpartition("@")[0] or destination).encode()
    return re.compile(rb"(?<!\w)" + name + rb"(?!\w)", re.IGNORECASE)


def _hide(patterns: list[re.Pattern[bytes]], literal: bytes) -> bytes:
    for pattern in patterns:
        literal = pattern.sub(HIDDEN, literal)
    return literal
