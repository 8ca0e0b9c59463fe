"""Call lists, resolved once: whose answer is asked for, in which order, and what may come back."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from types import MappingProxyType, NoneType, SimpleNamespace
from typing import Any

import pluggy

from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.words import Outcome, Scope, Suppress
from sendledger.plugin import spec
from sendledger.plugin.channel import (
    ContentFault,
    Deny,
    Destination,
    DestinationRefused,
    Go,
    Hold,
    Wait,
)
from sendledger.plugin.checks import Member
from sendledger.plugin.faults import PluginFault, contained, raised
from sendledger.plugin.receipts import CallbackRefused, Found, Receipt

Excuse = Callable[[PluginFault], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a hook may give and which exceptions of it are answers rather than faults."""

    expected: str
    kept: Callable[[Any], bool]
    refusals: tuple[type[Exception], ...] = ()


def call_list(
    hook: str, members: Sequence[Member], *, excuse: Excuse | None = None
) -> Callable[..., Any]:
    """Return a caller of *hook* that asks *members* from first to last, and nobody else.

    A member's ``tryfirst``, ``trylast`` and ``wrapper`` are respected. Each answer is checked where it is
    given, so a :class:`PluginFault` names the plugin whose fault it is. With *excuse*, a fault of an
    answer is reported there instead, and the next member is asked.
    """
    manager = pluggy.PluginManager(spec.PROJECT)
    manager.add_hookspecs(spec)
    for member in reversed(members):  # pluggy asks the last registered first
        implementation = member.hooks.get(hook)
        if implementation is not None:
            call = _checked(member.name, hook, implementation, excuse)
            manager.register(SimpleNamespace(**{hook: call}), member.registered)
    return _resolved(getattr(manager.hook, hook))


def _resolved(caller: pluggy.HookCaller) -> Callable[..., Any]:
    """Return *caller*, or the plain loop it comes to where the first answer counts and nobody wraps.

    Three such calls are made for each delivery; pluggy's own machinery costs more than what is called.
    """
    implementations = caller.get_hookimpls()
    if caller.spec is None or not caller.spec.opts["firstresult"]:
        return caller
    if any(each.wrapper or each.hookwrapper for each in implementations):
        return caller
    calls = [(each.function, each.argnames) for each in reversed(implementations)]
    if len(calls) == 1 and set(calls[0][1]) == set(caller.spec.argnames):
        return calls[0][0]  # nobody else is asked, and it takes all that is told

    def ask(**given: object) -> object:
        for call, names in calls:
            answer: object = call(*[given[name] for name in names])
            if answer is not None:
                return answer
        return None

    return ask


def gave(value: object, *, plugin: str, hook: str) -> PluginFault:
    """Return the fault of an answer of the wrong type; the value itself is never shown."""
    if inspect.iscoroutine(value):
        value.close()
    found = "nothing" if value is None else type(value).__name__
    reason = f"gave {found}; expected {PROMISES[hook].expected}"
    return PluginFault(reason, plugin=plugin, hook=hook)


def _checked(
    plugin: str, hook: str, implementation: pluggy.HookImpl, excuse: Excuse | None
) -> Callable[..., Any]:
    function: Callable[..., Any] = implementation.function
    guard = _Guard(plugin, hook)
    if implementation.wrapper:
        call = _checked_wrapper(guard, function)
    elif inspect.iscoroutinefunction(function):
        call = _checked_async(guard, function)
    else:
        call = _checked_plain(guard, function, excuse)
    marked: Callable[..., Any] = spec.hookimpl(**implementation.opts)(call)
    return marked


class _Guard:
    """Tells an answer from a fault, for one hook of one plugin."""

    __slots__ = ("hook", "kept", "passed", "plugin")

    def __init__(self, plugin: str, hook: str) -> None:
        self.plugin = plugin
        self.hook = hook
        self.kept = PROMISES[hook].kept
        self.passed = (*PROMISES[hook].refusals, PluginFault)

    def wrong(self, answer: object) -> PluginFault:
        return gave(answer, plugin=self.plugin, hook=self.hook)

    def fault(self, error: BaseException) -> PluginFault:
        """Return the fault that *error* is; raise it again where it is an answer or not the plugin's."""
        if isinstance(error, self.passed) or not contained(error):
            try:
                raise error
            finally:
                del error  # it holds this frame: the two would keep all callers' rows alive
        return raised(error, plugin=self.plugin, hook=self.hook)


def _checked_plain(
    guard: _Guard, function: Callable[..., Any], excuse: Excuse | None
) -> Callable[..., Any]:
    kept = guard.kept

    @functools.wraps(function)
    def ask(*args: object, **kwargs: object) -> object:
        try:
            answer: object = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - the guard raises again what it must
            fault = guard.fault(error)
        else:
            if answer is None or kept(answer):
                return answer
            fault = guard.wrong(answer)
        if excuse is None:
            raise fault  # outside the except clause: the plugin's exception is not carried along
        return excuse(fault)

    return ask


def _checked_async(guard: _Guard, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def ask(*args: object, **kwargs: object) -> object:
        try:
            answer: object = await function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - the guard raises again what it must
            fault = guard.fault(error)
        else:
            if guard.kept(answer):
                return answer
            fault = guard.wrong(answer)
        raise fault

    return ask


def _checked_wrapper(guard: _Guard, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrap(*args: object, **kwargs: object) -> Generator[None, object, object]:
        try:
            answer: object = yield from function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - the guard raises again what it must
            fault = guard.fault(error)
        else:
            if answer is None or guard.kept(answer):
                return answer
            fault = guard.wrong(answer)
        raise fault

    return wrap


# --- what each hook promises -----------------------------------------------------------------------


class _Fields:
    """Whether an answer has the fields it must have, each of its kind. Asked of every answer, so in C."""

    def __init__(self, **kinds: type | tuple[type, ...]) -> None:
        self._read = attrgetter(*kinds)
        self._kinds = tuple(kinds.values())

    def fit(self, answer: object) -> bool:
        return all(map(isinstance, self._read(answer), self._kinds))


# Evidence is stored after the message has left: a wrong field must show here, not at the database.
EVIDENCE_FIELDS = _Fields(
    stage=str,
    handed_over=bool,
    answered=bool,
    literal=bytes,
    reply_code=(int, NoneType),
    enhanced_code=(str, NoneType),
    provider_reference=(str, NoneType),
    fault=(str, NoneType),
    retry_after=(timedelta, NoneType),
    facts=(dict, MappingProxyType, Mapping),
)
CLASSIFICATION_FIELDS = _Fields(
    rule=str,
    outcome=Outcome,
    scope=Scope,
    retry_floor=(timedelta, NoneType),
    attempts_max=(int, NoneType),
    suppress=Suppress,
    opt_out=bool,
)
RECEIPT_FIELDS = _Fields(identity=str, evidence=Evidence, occurred_at=(datetime, NoneType))
FOUND_FIELDS = _Fields(receipts=(list, tuple), failed=(str, NoneType))


def _is_evidence(answer: object) -> bool:
    return isinstance(answer, Evidence) and EVIDENCE_FIELDS.fit(answer)


def _is_classification(answer: object) -> bool:
    return isinstance(answer, Classification) and CLASSIFICATION_FIELDS.fit(answer)


def _is_writer(answer: object) -> bool:
    return callable(getattr(answer, "write", None))


def _is_receipt(answer: object) -> bool:
    return (
        isinstance(answer, Receipt)
        and RECEIPT_FIELDS.fit(answer)
        and answer.identity != ""
        and _is_evidence(answer.evidence)
        and (answer.occurred_at is None or _is_aware(answer.occurred_at))
    )


def _are_receipts(answer: object) -> bool:
    return isinstance(answer, list | tuple) and all(map(_is_receipt, answer))


def _is_found(answer: object) -> bool:
    return isinstance(answer, Found) and FOUND_FIELDS.fit(answer) and _are_receipts(answer.receipts)


def _are_found(answer: object) -> bool:
    return isinstance(answer, list | tuple) and all(map(_is_found, answer))


def _is_aware(answer: object) -> bool:
    return isinstance(answer, datetime) and answer.utcoffset() is not None


def _is_verdict(answer: object) -> bool:
    if type(answer) in (Go, Wait):
        return _is_aware(getattr(answer, "until", None))
    return type(answer) in (Hold, Deny)


def _are_verdicts(answer: object) -> bool:
    return isinstance(answer, list | tuple) and all(map(_is_verdict, answer))


PROMISES: Mapping[str, Promise] = {
    "sendledger_channel": Promise(expected="a Channel", kept=lambda answer: answer is not None),
    "sendledger_destination": Promise(
        expected="Destination",
        kept=lambda answer: isinstance(answer, Destination),
        refusals=(DestinationRefused,),
    ),
    "sendledger_prepare": Promise(expected="a Writer", kept=_is_writer, refusals=(ContentFault,)),
    "sendledger_session": Promise(
        expected="an async context manager",
        kept=lambda answer: isinstance(answer, AbstractAsyncContextManager),
    ),
    "sendledger_submit": Promise(expected="Evidence", kept=_is_evidence),
    "sendledger_classify": Promise(expected="Classification or None", kept=_is_classification),
    "sendledger_read_callback": Promise(
        expected="a list or tuple of Receipt with an identity, Evidence and aware times",
        kept=_are_receipts,
        refusals=(CallbackRefused,),
    ),
    "sendledger_look_up": Promise(
        expected="a list or tuple of Found, one for each attempt", kept=_are_found
    ),
    "sendledger_authorize": Promise(
        expected="a list or tuple of Go, Wait, Hold or Deny with aware times", kept=_are_verdicts
    ),
    "sendledger_observed": Promise(expected="nothing", kept=lambda answer: answer is None),
}
