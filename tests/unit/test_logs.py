"""Logs: what passes, what is redacted, and that libraries cannot speak past either."""

from __future__ import annotations

import ast
import base64
import errno
import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sendledger.logs import (
    LEVELS,
    NUMBERS,
    SAFE_KEYS,
    configure_logs,
    describe_exception,
    get_logger,
    redact,
)
from sendledger.settings.problems import SettingsError

ADDRESS = "ann@school.example"
NUMBER = "+12025550143"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    stream = io.StringIO()
    configure_logs(json=True, level="debug", stream=stream)
    yield stream
    configure_logs(json=False, level="info")
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def last(out: io.StringIO) -> dict[str, Any]:
    found = json.loads(out.getvalue().splitlines()[-1])
    assert isinstance(found, dict)
    return found


class FullDisk(io.StringIO):
    """Refuses every line, as a file on a full disk does."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_line_that_cannot_be_written_stops_nobody(out: io.StringIO) -> None:
    configure_logs(json=True, level="debug", stream=FullDisk())
    get_logger("x").error("lost")
    configure_logs(json=True, level="debug", stream=out)
    get_logger("x").error("kept")
    assert last(out)["event"] == "kept"


def test_known_keys_pass_and_unknown_ones_do_not(out: io.StringIO) -> None:
    due_at = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
    get_logger("work").info(
        "recorded", channel="email", rows=7, waited_s=0.5, due_at=due_at, name="Ann", total=3
    )
    line = last(out)
    assert {key: line[key] for key in ("event", "level", "logger")} == {
        "event": "recorded",
        "level": "info",
        "logger": "work",
    }
    assert (line["channel"], line["rows"], line["waited_s"]) == ("email", 7, 0.5)
    assert line["due_at"] == "2026-03-01 08:30:00+00:00"
    assert (line["name"], line["total"]) == ("[redacted]", "[redacted]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"to {ADDRESS}, now", "to [redacted], now"),
        (f"To=<{ADDRESS}>", "To=<[redacted]>"),
        ("postgresql://u:pw@db.example/x", "[redacted]"),
        (f"The 'To' number {NUMBER} is not valid", "The 'To' number [redacted] is not valid"),
        ("call (202) 555-0143.", "call [redacted]."),
        ("202.555.0143", "[redacted]"),
        ("from 127.0.0.1 to 192.168.100.200", "from 127.0.0.1 to 192.168.100.200"),
        ("on 2026-03-01 at 08:30:00", "on 2026-03-01 at 08:30:00"),
        ("550 5.1.1 after 12 s", "550 5.1.1 after 12 s"),
        ("a\r\nforged=line", "a forged=line"),
    ],
)
def test_addresses_and_numbers_are_found_in_any_text(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_redaction_reaches_events_and_lists(out: io.StringIO) -> None:
    get_logger("work").warning(
        f"lost {ADDRESS}", reason=[NUMBER, "quota"], intent_key="12345678901234567890"
    )
    line = last(out)
    assert line["event"] == "lost [redacted]"
    assert line["reason"] == ["[redacted]", "quota"]
    assert line["intent_key"] == "12345678901234567890"


def test_an_exception_from_elsewhere_keeps_its_type_and_loses_its_text(out: io.StringIO) -> None:
    error = ConnectionRefusedError(111, f"cannot reach {ADDRESS}")
    error.__cause__ = ValueError("Key (name)=(Ann) already exists")
    get_logger("work").error("failed", exc_info=error)
    assert last(out)["exception"] == "ConnectionRefusedError[ECONNREFUSED] <- ValueError"


def test_our_own_exceptions_keep_their_text_and_our_lines() -> None:
    with pytest.raises(ValueError, match="no log level") as caught:
        configure_logs(json=False, level="loud")
    assert describe_exception(caught.value).startswith("ValueError at sendledger.logs:")
    own = SettingsError([f"wrong near {ADDRESS}"], file="x.yaml")
    assert describe_exception(own) == "SettingsError: x.yaml: wrong near [redacted]"


def test_the_members_of_a_group_are_named() -> None:
    group = ExceptionGroup("secret", [KeyError("secret"), TimeoutError()])
    assert describe_exception(group) == "ExceptionGroup of 2: (KeyError; TimeoutError)"


@pytest.mark.parametrize(
    "name", ["aiosmtplib", "asyncio", "uvicorn.error", "twilio.http", "psycopg"]
)
def test_libraries_are_heard_from_warning_on(out: io.StringIO, name: str) -> None:
    logging.getLogger(name).info("AUTH PLAIN secret")
    assert out.getvalue() == ""
    logging.getLogger(name).warning("error connecting in %r: %s", ADDRESS, ValueError("secret"))
    line = last(out)
    assert line["event"] == "error connecting in '[redacted]': ValueError"
    assert (line["logger"], line["level"]) == (name, "warning")


def test_a_pool_that_cannot_connect_says_so_to_nobody(out: io.StringIO) -> None:
    pool = logging.getLogger("psycopg.pool")
    pool.warning("error connecting in %r: %s", "pool-1", ValueError("secret"))
    assert out.getvalue() == ""
    pool.error("broken")
    assert last(out)["event"] == "broken"


def test_what_a_library_spliced_in_itself_is_cut_off(out: io.StringIO) -> None:
    asyncio = logging.getLogger("asyncio")
    asyncio.error(
        "Task exception was never retrieved\nfuture: <Task exception=ValueError('secret')>"
    )
    assert last(out)["event"] == "Task exception was never retrieved"
    asyncio.error("Exception in callback Reader.feed(b'secret')")
    assert last(out)["event"] == "Exception in callback Reader.feed"


def test_no_level_shows_a_password_or_its_base64(out: io.StringIO) -> None:
    password = "S3cr3t-and-long!"  # a made-up one
    encoded = base64.b64encode(f"\0mailer\0{password}".encode()).decode()
    get_logger("work").debug("login", password=password, stage="auth", header=f"Basic {encoded}")
    logging.getLogger("aiosmtplib").critical("AUTH PLAIN " + encoded)  # noqa: G003 - spliced in, as some do
    assert "login" in out.getvalue()
    assert password not in out.getvalue()
    assert encoded not in out.getvalue()


def test_text_is_one_line_of_keys_and_quiet_below_its_level() -> None:
    stream = io.StringIO()
    configure_logs(json=False, level="warning", stream=stream)
    try:
        get_logger("work").info("unheard")
        get_logger("work").error("two words", rows=2)
    finally:
        configure_logs(json=False, level="info")
    assert stream.getvalue().count("\n") == 1
    assert 'level=error logger=work event="two words" rows=2' in stream.getvalue()


def test_a_logger_redacts_before_anything_was_configured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    get_logger("early").info("hello", destination=ADDRESS)
    assert "destination=[redacted]" in capsys.readouterr().err


def test_a_logged_exception_comes_with_its_type(out: io.StringIO) -> None:
    try:
        int("hunter22")
    except ValueError:
        get_logger("work").exception("unreadable")
    line = last(out)
    assert (line["level"], line["exception"]) == ("error", "ValueError")
    assert "exc_info" not in line


def _logged_keys(source: Path) -> set[str]:
    calls = (
        node
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    )
    keys: set[str] = set()
    for call in calls:
        match call.func:
            case ast.Attribute(value=ast.Name(id="log"), attr=attr) if attr in {
                *LEVELS,
                "exception",
            }:
                keys |= {keyword.arg for keyword in call.keywords if keyword.arg}
    return keys - {"exc_info"}


def test_every_key_that_is_logged_is_known_to_be_safe() -> None:
    root = Path(__file__).resolve().parents[2]
    sources = [*root.glob("core/sendledger/**/*.py"), *root.glob("plugins/**/*.py")]
    found = {key: source.name for source in sources for key in _logged_keys(source)}
    assert found
    unknown = {
        key: name
        for key, name in found.items()
        if key not in SAFE_KEYS and not key.endswith(NUMBERS)
    }
    assert not unknown, (
        "add these to SAFE_KEYS of sendledger.logs if they hold our own words or counts"
    )
