"""What is refused before the first message: misspelt hooks, wrong arguments, wrong colour, half a channel."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import pluggy

from sendledger.plugin import spec
from sendledger.plugin.channel import Capabilities, Channel, Receipts
from sendledger.plugin.faults import PluginFault, contained, described

PREFIX = f"{spec.PROJECT}_"
SPECS: Mapping[str, Callable[..., object]] = MappingProxyType(
    {name: hook for name, hook in vars(spec).items() if name.startswith(PREFIX)}
)
ASYNC_HOOKS = frozenset(name for name, hook in SPECS.items() if inspect.iscoroutinefunction(hook))

OFFERED_HOOKS: Mapping[str, Callable[[Capabilities], bool]] = MappingProxyType(
    {
        "sendledger_read_callback": lambda offered: offered.receipts is not Receipts.NONE,
        "sendledger_look_up": lambda offered: offered.look_up,
    }
)
"""Hooks that a channel has exactly if it declares the capability."""

CHANNEL_HOOKS = frozenset(name for name in SPECS if hasattr(Channel, name)) | OFFERED_HOOKS.keys()
MODULE_HOOKS = frozenset(SPECS) - {"sendledger_submit", "sendledger_look_up"}
"""A module may stand in for every answer of a channel but two: only the channel itself speaks to its peer."""

REQUIRED_HOOKS = CHANNEL_HOOKS - {"sendledger_classify"} - OFFERED_HOOKS.keys()
WRAPPABLE_HOOKS = CHANNEL_HOOKS - ASYNC_HOOKS

_DEPLOYMENT_OPTIONS: tuple[Literal["wrapper", "hookwrapper", "tryfirst", "trylast"], ...] = (
    "wrapper",
    "hookwrapper",
    "tryfirst",
    "trylast",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A plugin module or a channel that passed the checks, and the hooks it implements.

    ``registered`` is its name in pluggy: a channel's is its configured name, which may well be the name
    of its plugin, so a module is registered as ``plugin NAME``.
    """

    name: str
    registered: str
    hooks: Mapping[str, pluggy.HookImpl]


def module_member(name: str, module: object) -> Member:
    """Check a plugin module. Raises :class:`PluginFault` naming the plugin, the hook and the remedy."""
    hooks = _implementations(name, module)
    for hook, implementation in hooks.items():
        if hook not in MODULE_HOOKS:
            raise PluginFault("belongs to a channel, not to its module", plugin=name, hook=hook)
        _refuse_bad_wrapper(implementation, hook)
    return Member(name=name, registered=f"plugin {name}", hooks=hooks)


def channel_member(name: str, channel: object) -> Member:
    """Check that *channel* keeps every promise of :class:`Channel` that can be seen before a call."""
    hooks = _implementations(name, channel)
    for hook, implementation in hooks.items():
        if hook not in CHANNEL_HOOKS:
            raise PluginFault("belongs to the module, not to a channel", plugin=name, hook=hook)
        if any(implementation.opts[option] for option in _DEPLOYMENT_OPTIONS):
            raise PluginFault("is a channel's answer: use a bare @hookimpl", plugin=name, hook=hook)
    missing = sorted(REQUIRED_HOOKS - hooks.keys())
    if missing:
        raise PluginFault(f'channel "{name}" lacks {", ".join(missing)}', plugin=name)
    _refuse_bad_promises(name, channel)
    _refuse_empty_offers(name, channel, hooks)
    return Member(name=name, registered=name, hooks=hooks)


def _refuse_bad_promises(name: str, channel: object) -> None:
    try:
        capabilities = getattr(channel, "capabilities", None)
    except BaseException as error:
        if not contained(error):
            raise
        reason = f'channel "{name}": capabilities raised {described(error)}'
        raise PluginFault(reason, plugin=name) from None
    if not isinstance(capabilities, Capabilities):
        found = type(capabilities).__name__
        reason = f'channel "{name}": capabilities must be Capabilities, found {found}'
        raise PluginFault(reason, plugin=name)
    unknown = sorted(capabilities.required_parts - capabilities.parts.keys())
    if unknown:
        reason = f'channel "{name}" requires parts that it does not render: {", ".join(unknown)}'
        raise PluginFault(reason, plugin=name)
    for method in ("sender_of", *(["units_of"] if capabilities.units else [])):
        plain = getattr(channel, method, None)
        if not callable(plain) or inspect.iscoroutinefunction(plain):
            raise PluginFault(f'channel "{name}" lacks a plain method {method}', plugin=name)


def _refuse_empty_offers(name: str, channel: Any, hooks: Mapping[str, object]) -> None:
    for hook, offers in OFFERED_HOOKS.items():
        if offers(channel.capabilities) and hook not in hooks:
            reason = f'channel "{name}" declares what {hook} is for and lacks it'
            raise PluginFault(f"{reason}; write it, or declare less", plugin=name)


def _implementations(name: str, plugin: object) -> Mapping[str, pluggy.HookImpl]:
    _refuse_unmarked(name, plugin)
    hooks: dict[str, pluggy.HookImpl] = {}
    for hook, implementation in _marked(name, plugin):
        if hook not in SPECS:
            if implementation.optionalhook:
                continue
            raise _unknown(name, hook)
        if hook in hooks:
            raise PluginFault("is implemented twice", plugin=name, hook=hook)
        _refuse_bad_arguments(implementation, hook)
        _refuse_bad_colour(implementation, hook)
        hooks[hook] = implementation
    return MappingProxyType(hooks)


def _marked(name: str, plugin: object) -> Iterator[tuple[str, pluggy.HookImpl]]:
    # A manager without specifications only collects, so that each refusal can be put in our words.
    manager = pluggy.PluginManager(spec.PROJECT)
    manager.register(plugin, name)
    for caller in manager.get_hookcallers(plugin) or ():
        for implementation in caller.get_hookimpls():
            yield caller.name, implementation


def _refuse_unmarked(name: str, plugin: object) -> None:
    manager = pluggy.PluginManager(spec.PROJECT)
    inherited = vars(Channel).values()
    for attribute in dir(plugin):
        if not attribute.startswith(PREFIX):
            continue
        static = inspect.getattr_static(plugin, attribute, None)
        function = getattr(static, "__func__", static)
        if not inspect.isroutine(function) or function in inherited:
            continue
        if manager.parse_hookimpl_opts(plugin, attribute) is None:
            raise _unmarked(name, attribute)


def _unmarked(name: str, attribute: str) -> PluginFault:
    if attribute in SPECS:
        return PluginFault("is not marked; put @hookimpl above it", plugin=name, hook=attribute)
    return _unknown(name, attribute)


def _unknown(name: str, hook: str) -> PluginFault:
    # The prefix that all share would make every name look near.
    words = [known.removeprefix(PREFIX) for known in SPECS]
    near = difflib.get_close_matches(hook.removeprefix(PREFIX), words, n=1)
    meant = f"did you mean {PREFIX}{near[0]}?" if near else f"known: {', '.join(sorted(SPECS))}"
    return PluginFault(f"is no hook; {meant}", plugin=name, hook=hook)


def _refuse_bad_arguments(implementation: pluggy.HookImpl, hook: str) -> None:
    wanted = inspect.signature(SPECS[hook]).parameters
    given = inspect.signature(implementation.function).parameters.values()
    for parameter in given:
        if parameter.name not in wanted or parameter.kind not in _PASSED:
            raise PluginFault(
                f'cannot be given the argument "{_bare(parameter)}"; write {hook}({", ".join(wanted)})',
                plugin=implementation.plugin_name,
                hook=hook,
            )


def _bare(parameter: inspect.Parameter) -> str:
    empty = inspect.Parameter.empty
    return str(parameter.replace(annotation=empty, default=empty))


_PASSED = frozenset({inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD})


def _refuse_bad_colour(implementation: pluggy.HookImpl, hook: str) -> None:
    function: Callable[..., Any] = implementation.function
    wrapper = implementation.wrapper or implementation.hookwrapper
    found: str | None = None
    if inspect.isasyncgenfunction(function):
        found = "an async generator"
    elif inspect.isgeneratorfunction(function) and not wrapper:
        found = "a generator"
    elif inspect.iscoroutinefunction(function) and hook not in ASYNC_HOOKS:
        found = "async"
    elif not inspect.iscoroutinefunction(function) and hook in ASYNC_HOOKS and not wrapper:
        found = "plain"
    if found:
        wanted = "async def" if hook in ASYNC_HOOKS else "plain def"
        raise PluginFault(
            f"is {found}; write it as {wanted}", plugin=implementation.plugin_name, hook=hook
        )


def _refuse_bad_wrapper(implementation: pluggy.HookImpl, hook: str) -> None:
    if not (implementation.wrapper or implementation.hookwrapper):
        return
    reason: str | None = None
    if hook not in WRAPPABLE_HOOKS:
        reason = f"may not be wrapped; only {', '.join(sorted(WRAPPABLE_HOOKS))} may"
    elif implementation.hookwrapper:
        reason = "uses hookwrapper=True; write wrapper=True"
    elif not inspect.isgeneratorfunction(implementation.function):
        reason = "is marked as a wrapper and must yield once"
    if reason:
        raise PluginFault(reason, plugin=implementation.plugin_name, hook=hook)
