"""What the commands print: JSON as it is documented, and explanations that find their intent."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from acceptance.rig import Site, drained, relay_of, until, working, write_private
from sms_kit import AUTH_TOKEN
from sms_site import account

PAGE = Path(__file__).parents[2] / "docs/json.md"
ROW = re.compile(r"\| `(?P<field>[^`]+)` \| (?P<type>[a-z ]+) \|")
MAPPINGS = {"settings", "policy", "rules"}
"""What the document of ``check`` names by a key that is not a word of the interface."""

TYPES: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "instant": lambda value: isinstance(value, str) and is_instant(value),
    "null": lambda value: value is None,
}


def is_instant(text: str) -> bool:
    return text.endswith("Z") and datetime.fromisoformat(text).utcoffset() == timedelta(0)


def documented(command: str) -> dict[str, str]:
    """Return the type of each field that the page names of *command*."""
    chapter = PAGE.read_text(encoding="utf-8").partition(f"\n## {command}\n")[2].partition("\n## ")
    return {found["field"]: found["type"] for found in ROW.finditer(chapter[0])}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every plain value with its path, as the page writes paths."""
    if isinstance(value, dict):
        for key, entry in value.items():
            step = "{}" if path in MAPPINGS else f".{key}" if path else key
            yield from leaves(entry, path + step)
    elif isinstance(value, list):
        for entry in value:
            yield from leaves(entry, f"{path}[]")
    else:
        yield path, value


def assert_as_documented(command: str, *documents: str) -> None:
    """All documents together have every field of the page and no other, of the type it says."""
    page = documented(command)
    seen: defaultdict[str, list[Any]] = defaultdict(list)
    for text in documents:
        for path, value in leaves(json.loads(text)):
            seen[path].append(value)
    assert seen.keys() == page.keys()
    for path, values in seen.items():
        kinds = [TYPES[kind] for kind in page[path].split(" or ")]
        for value in values:
            assert any(kind(value) for kind in kinds), path


def attach(site: Site, name: str, content: bytes) -> None:
    """Let a file go along with every message of the batch."""
    (site.folder / "files").mkdir()
    (site.folder / "files" / name).write_bytes(content)
    site.settings["attachments"] = {"roots": ["files"]}
    url = f"file://{site.folder}/files/{name}"
    site.batch["attachments"] = [{"url": url, "name": name, "media_type": "text/plain"}]


async def test_every_document_is_as_the_page_says(site: Site) -> None:
    """One eventful installation: refused, unknown, held, paused and backing off at the same time."""
    site.policy["unknown"]["wait"] = "6s"
    site.policy["grace"] = "0s"
    attach(site, "terms.txt", b"terms")
    async with relay_of(site) as relay:
        await site.planned(
            {
                "gone": "gone+rcpt-550-5.1.1@home.test",
                "lost": "lost+lose-answer@home.test",
                "fine": "fine@home.test",
                "later": "later+rcpt-452-4.3.0@home.test",
            }
        )
        async with working(site):
            await until(lambda: site.row("lost").awaits == "decision")
        await site.tell("pause", "purpose:reports")
        site.batch.update(content_revision="r2", purpose="others")
        await relay.close()
        await site.planned({f"n{n}": f"n{n}@home.test" for n in range(5)})
        async with working(site):
            await until(lambda: site.count("back_off") == site.count("worker") == 1)
            assert_as_documented("status", (await site.tell("status", "--json")).out)
        gone, lost = site.row("gone").key, site.row("lost").key
        assert_as_documented("stuck", (await site.tell("stuck", "--json")).out)
        assert_as_documented("tasks", (await site.tell("tasks", "--json")).out)
        assert_as_documented(
            "explain",
            (await site.tell("explain", gone, "--json")).out,
            (await site.tell("explain", lost, "--json", "--who")).out,
        )
        write_private(site.folder / "token", AUTH_TOKEN)
        site.settings["channels"]["sms"] = {"plugin": "twilio", "settings": account()}
        site.write()
        assert_as_documented("check", (await site.tell("check", "--json")).out)
        site.select("UPDATE sendledger.delivery SET spent = 7 WHERE status = 'failed'")
        broken = await site.tell("rebuild", "--verify", "--json")
        assert broken.code == 1
        assert_as_documented("rebuild", broken.out)


def test_a_plan_is_documented_with_and_without_rejects(site: Site) -> None:
    site.write_recipients({"s1": "pat@home.test", "s2": "no address"})
    site.write()
    arguments = ["plan", f"{site.folder}/batch.yaml", "-r", f"{site.folder}/recipients.csv"]
    some = site.called(*arguments, "--json")
    assert some.code == 1
    assert_as_documented("plan", some.out)
    site.write_recipients({"s1": "pat@home.test"})
    again = site.called(*arguments, "--json")
    assert again.code == 0
    assert json.loads(again.out) == {
        "batch": "spring/r1/email",
        "planned": 0,
        "known": 1,
        "repeated": 0,
        "rejected": 0,
        "rejects_file": None,
        "dry_run": False,
    }


def test_json_is_the_only_thing_on_standard_output(site: Site) -> None:
    json.loads(site.ask("rebuild", "--verify", "--json").out)
    for command in ("status", "stuck", "tasks", "check"):
        json.loads(site.called(command, "--json").out)


# --- explain -------------------------------------------------------------------------------------


def shared_prefix(one: str, other: str) -> str:
    return one[: next(i for i in range(32) if one[i] != other[i])]


def test_an_intent_is_found_by_the_first_digits_of_its_key(site: Site) -> None:
    """Among some hundreds of keys, four digits are sometimes shared: then more are asked for."""
    site.plan({f"s{n}": f"parent{n}@home.test" for n in range(600)})
    keys = sorted(row.key for row in site.rows())
    twins = next(pair for pair in pairwise(keys) if pair[0][:4] == pair[1][:4])
    shared = shared_prefix(*twins)
    ran = site.called("explain", shared)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"sendledger: several intent keys begin with {shared}: give more digits\n"
    for key in (twins[0], twins[0][: len(shared) + 1].upper(), f" {twins[0]} "):
        assert site.called("explain", key).out.startswith(f"intent {twins[0]}\n")


async def test_an_explanation_names_every_step_its_rule_and_who_allowed_it(site: Site) -> None:
    async with relay_of(site):
        await site.planned({"soon": "soon+defer-1-452-4.3.0@home.test"})
        async with working(site):
            await until(lambda: site.row("soon").status == "submitted")
        told = " ".join((await site.tell("explain", site.row("soon").key)).out.split())
    for part in (
        "authorised by head",
        "(AUTH-1)",
        "attempt 1 opened",
        "452 4.3.0 scripted refusal",
        "rule policy.retry",
        "attempt 2 opened",
        "rule default.2yz",
        "awaits evidence",
    ):
        assert part in told


async def test_labels_with_brackets_are_shown_as_they_are(site: Site) -> None:
    """The terminal library reads ``[red]`` as a colour and stumbles over ``[/b]``."""
    site.batch.update(report="Spring [red] 2026", content_revision="[/b]", purpose="reports [/i]")
    site.batch["authorization"].update(id="[bold]A-1", by="head [/dean]")
    site.relay["sender_name"] = "School [/u]"
    async with relay_of(site):
        await site.planned({"gone": "gone+rcpt-550-5.1.1@home.test"})
        await site.tell("pause", "purpose:reports [/i]")
        shown = await site.tell("status")
        await site.tell("resume", "purpose:reports [/i]")
        await drained(site)
    told = await site.tell("explain", site.row("gone").key)
    for label in ("Spring [red] 2026 / [/b] / email", "head [/dean]", "[bold]A-1"):
        assert label in shown.out
        assert label in told.out
    assert "\n  sendledger resume 'purpose:reports [/i]'\n" in shown.out
    assert "School [/u]" in (await site.tell("check")).out
    tasks = await site.tell("tasks")
    assert "batch:Spring [red] 2026/[/b]/email" in tasks.out
    number = tasks.out.splitlines()[1].split()[0]
    closed = await site.tell("tasks", "close", number)
    assert closed.out.endswith(" in batch:Spring [red] 2026/[/b]/email\n")


@pytest.mark.parametrize("columns", ["80", "120"])
async def test_no_line_is_wider_than_the_terminal(
    site: Site, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    async with relay_of(site):
        await site.planned(
            {"gone": "gone+rcpt-550-5.1.1@home.test", "lost": "lost+lose-answer@home.test"}
        )
        await drained(site)
        for command in (
            ["status"],
            ["stuck"],
            ["tasks"],
            ["check"],
            ["explain", site.row("gone").key],
            ["explain", site.row("lost").key],
        ):
            ran = await site.tell(*command)
            assert ran.code == 0
            assert max(map(len, ran.out.splitlines())) <= int(columns)
