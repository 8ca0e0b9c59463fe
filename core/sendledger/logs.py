"""Logs: one line to an event, and nothing about a person or a secret in any of them.

A key passes only if its name is known to be safe, and what passes is still searched for addresses and
telephone numbers. Of an exception from elsewhere the type and our own lines are kept, never its text: a
server's reply, a constraint's detail or a URL may hold anything.
"""

from __future__ import annotations

import errno
import logging
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from ipaddress import ip_address
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

REDACTED = "[redacted]"
LEVELS = ("debug", "info", "warning", "error", "critical")
LIBRARIES = ("aiosmtplib", "alembic", "asyncio", "psycopg", "sqlalchemy", "twilio", "uvicorn")

QUIET = ("psycopg.pool",)
"""Its warnings are a dozen a second while the database is away, which we say ourselves."""

SAFE_KEYS = frozenset(
    """
    attempt_number attempts awaits batch cause channel claimed claims constraint content_id content_revision
    count distribution due_at enhanced_code event exception failed fault fold held hook installation intent_id
    intent_key intents lane lease level limit line logger loop migration oldest opened outcome pending pid plugin
    policy_revision port probes provenance purpose reason recorded recovered release reply_code revision
    route rows rule ruling scope scope_key seq sessions signal slots source sqlstate stage statement status step
    task timestamp tries until version wake_at worker
    """.split()  # noqa: SIM905 - a list of one hundred quotes reads worse
)
"""Names of our own words, counts and instants. Extend it when a new one is logged."""

NUMBERS = ("_s", "_ms", "_bytes", "_count", "_max", "_min")
"""Ends of names under which a number passes, whatever the rest of the name."""

# Digests and instants are ours, and look like telephone numbers to the pattern below.
_VERBATIM = frozenset({"intent_key", "level", "logger", "policy_revision", "timestamp"})

_ADDRESS = re.compile(r"[^\s@<>\"'(,=]+@[^\s@<>\"',)]+")
_NUMBER = re.compile(r"(?<![\w.:-])\+?\(?\d[\d ().-]{5,}\d(?![\w:-])")
_DIGITS_MIN = 7  # the shortest subscriber numbers of E.164
_CREDENTIAL = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_QUOTATION = re.compile(r"[(\[{<'\"\n].*", re.DOTALL)

_CHAIN_MAX = 5
_FRAMES_MAX = 3


def configure_logs(*, json: bool, level: str, stream: TextIO | None = None) -> None:
    """Write events of *level* and above to *stream* (stderr), as JSON or as ``key=value``.

    Warnings and errors of libraries go the same way. Less than a warning of theirs is never written,
    whatever *level* is: it may hold what went over a wire. Raises ``ValueError`` for an unknown level.
    """
    if level not in LEVELS:
        raise ValueError(f"there is no log level of this name; use one of {', '.join(LEVELS)}")
    _lines.stream = stream
    _lines.minimum = logging.getLevelName(level.upper())
    _lines.render = _as_json if json else _as_text
    _route_libraries()


def get_logger(name: str) -> FilteringBoundLogger:
    """Return a logger whose events are redacted, also before :func:`configure_logs` was called."""
    logger = structlog.wrap_logger(
        _lines,
        processors=[_drop_quiet, _stamp, _name_exceptions, _redact_event, _render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
    )
    return cast("FilteringBoundLogger", logger.bind(logger=name))


def is_debugging() -> bool:
    """Whether debug events are written; to ask costs less than to log thousands a second into nothing."""
    return _lines.minimum <= logging.DEBUG


def redact(text: str) -> str:
    """Return *text* on one line, without anything that looks like an address or a telephone number."""
    return _NUMBER.sub(_redact_number, _ADDRESS.sub(REDACTED, _CONTROL.sub(" ", text)))


def describe_exception(error: BaseException) -> str:
    """Return the types of *error* and of its causes, each with our own lines that it came through.

    Its text is given, redacted, only if the type is ours; otherwise its SQLSTATE or errno stands for it.
    """
    return " <- ".join(_describe_one(each) for each in _chain(error))


# --- processors, in their order ----------------------------------------------------------------


def _drop_quiet(_logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    if logging.getLevelName(method.upper()) < _lines.minimum:
        raise structlog.DropEvent
    event["level"] = method
    return event


_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)


def _name_exceptions(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    found = event.pop("exc_info", None)
    error = sys.exc_info()[1] if found is True else found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        event["exception"] = error
    return event


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: _redact_value(key, value) for key, value in event.items()}


def _redact_value(key: str, value: Any) -> Any:
    if key in _VERBATIM or value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if key in SAFE_KEYS or key.endswith(NUMBERS) else REDACTED
    return _redact_known(value) if key in SAFE_KEYS else REDACTED


def _redact_known(value: Any) -> Any:
    match value:
        case str():
            return redact(value)
        case BaseException():
            return describe_exception(value)
        case int() | float():
            return value
        case date() | timedelta():
            return str(value)
        case list() | tuple() | set() | frozenset():
            return [_redact_known(item) for item in value]
    return REDACTED


def _render(logger: WrappedLogger, method: str, event: EventDict) -> str:
    return str(_lines.render(logger, method, event))


def _redact_number(found: re.Match[str]) -> str:
    text = found.group()
    if sum(map(str.isdigit, text)) < _DIGITS_MIN or _is_ours(text):
        return text
    return REDACTED


def _is_ours(text: str) -> bool:
    """Whether *text* is an address of a machine or a date."""
    for read in (ip_address, date.fromisoformat):
        try:
            read(text)
        except ValueError:
            continue
        return True
    return False


# --- exceptions --------------------------------------------------------------------------------


def _chain(error: BaseException) -> Iterator[BaseException]:
    following: BaseException | None = error
    for _ in range(_CHAIN_MAX):
        if following is None:
            return
        yield following
        hidden = following.__suppress_context__
        following = following.__cause__ or (None if hidden else following.__context__)


def _describe_one(error: BaseException) -> str:
    lines = _our_lines(error)
    where = f" at {' > '.join(lines)}" if lines else ""
    return f"{_label(error)}{where}{_members(error)}"


def _label(error: BaseException) -> str:
    name = type(error).__name__
    if type(error).__module__.startswith("sendledger"):
        return f"{name}: {redact(str(error))}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name}[{errno.errorcode.get(error.errno, error.errno)}]"
    code = getattr(error, "sqlstate", None)
    return f"{name}[{code}]" if isinstance(code, str) else name


def _our_lines(error: BaseException) -> list[str]:
    walked = traceback.walk_tb(error.__traceback__)
    places = [(str(frame.f_globals.get("__name__")), line) for frame, line in walked]
    ours = [f"{module}:{line}" for module, line in places if module.startswith("sendledger")]
    return ours[-_FRAMES_MAX:]


def _members(error: BaseException) -> str:
    if not isinstance(error, BaseExceptionGroup):
        return ""
    members = "; ".join(_describe_one(each) for each in error.exceptions[:_CHAIN_MAX])
    return f" of {len(error.exceptions)}: ({members})"


# --- libraries ---------------------------------------------------------------------------------


class _Router(logging.Handler):
    """Brings what libraries log into our own lines, with their arguments taken out."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record* as an event of ours."""
        level = max(logging.WARNING, min(record.levelno // 10 * 10, logging.CRITICAL))
        get_logger(record.name).log(level, _library_event(record), exc_info=record.exc_info)


def _route_libraries() -> None:
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    if _router not in root.handlers:
        root.addHandler(_router)


def _library_event(record: logging.LogRecord) -> str:
    template = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
    if record.args:  # noqa: SIM108 - the comment belongs to one branch
        text = _splice(template, record.args).partition("\n")[0]
    else:
        # whatever was spliced in already stands in brackets or quotes, or on a line of its own
        text = _QUOTATION.sub("", template)
    return _CREDENTIAL.sub(REDACTED, text).rstrip(" :")


def _splice(template: str, arguments: Any) -> str:
    try:
        if isinstance(arguments, Mapping):
            return template % {key: _harmless(value) for key, value in arguments.items()}
        return template % tuple(map(_harmless, arguments))
    except (KeyError, TypeError, ValueError):
        return template


def _harmless(argument: object) -> object:
    match argument:
        case int() | float():
            return argument
        case BaseException():
            return describe_exception(argument)
    return REDACTED


# --- the lines ---------------------------------------------------------------------------------

_as_json = structlog.processors.JSONRenderer(sort_keys=True)
_as_text = structlog.processors.LogfmtRenderer(
    key_order=["timestamp", "level", "logger", "event"],
    sort_keys=True,
    drop_missing=True,
    bool_as_flag=False,
)


class _Lines:
    """Where lines go and how they look: the only thing that configuring changes."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self.minimum: int = logging.INFO
        self.render: Any = _as_text

    def write(self, line: str) -> None:
        """Write *line* at once; on a full disk or into a closed pipe it is lost, and stops nobody."""
        stream = self.stream or sys.stderr
        with suppress(OSError):
            stream.write(f"{line}\n")
            stream.flush()

    debug = info = warning = error = critical = write


_lines = _Lines()
_router = _Router()
