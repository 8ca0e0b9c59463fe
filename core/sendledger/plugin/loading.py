"""From a configured name to an imported module: one entry point at a time, and only those named."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from pydantic import BaseModel

from sendledger.plugin.faults import PluginFault
from sendledger.plugin.spec import PROJECT

CAUSE_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An entry point of the group ``sendledger``; its module may never have been imported."""

    name: str
    value: str
    distribution: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An imported plugin module and where it came from."""

    name: str
    module: ModuleType
    distribution: str
    version: str


def installed() -> tuple[Installed, ...]:
    """Return every installed plugin by name, without importing any.

    A distribution that is found twice on the path (a checkout and its wheel) counts once.
    """
    found = {_installed(point) for point in entry_points(group=PROJECT)}
    return tuple(sorted(found, key=lambda each: (each.name, each.distribution, each.version)))


def load(name: str, *, needed_by: str) -> Loaded:
    """Import the module of the plugin *name*. Raises :class:`PluginFault` with name, origin and cause."""
    origin = _choose(name, needed_by=needed_by)
    try:
        module = EntryPoint(name=name, value=origin.value, group=PROJECT).load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit at import must not end the process without a word
        raise _not_loaded(origin, _cause(error), needed_by=needed_by) from error
    if not isinstance(module, ModuleType):
        raise _not_loaded(origin, f"{origin.value} is no module", needed_by=needed_by)
    return Loaded(
        name=name, module=module, distribution=origin.distribution, version=origin.version
    )


def settings_model(plugin: Loaded) -> type[BaseModel]:
    """Return the model that types a channel's settings. Raises :class:`PluginFault` if it has none."""
    model = getattr(plugin.module, "settings_model", None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model
    found = "nothing" if model is None else f"a {type(model).__name__}"
    raise PluginFault(
        f'the plugin "{plugin.name}" cannot build a channel: '
        f"its settings_model must be a pydantic model, found {found}",
        plugin=plugin.name,
    )


def _choose(name: str, *, needed_by: str) -> Installed:
    everything = installed()
    offers = [each for each in everything if each.name == name]
    if len(offers) == 1:
        return offers[0]
    if offers:
        origins = " and ".join(f"{each.distribution} {each.version}" for each in offers)
        reason = f"which {origins} both offer; uninstall one"
    else:
        names = ", ".join(sorted({each.name for each in everything})) or "none"
        reason = (
            f"which is not installed (installed: {names}); "
            "install its distribution or correct the name"
        )
    raise PluginFault(f'{needed_by} needs the plugin "{name}", {reason}', plugin=name)


def _installed(point: EntryPoint) -> Installed:
    origin = point.dist
    return Installed(
        name=point.name,
        value=point.value,
        distribution=origin.name if origin else "unknown",
        version=origin.version if origin else "unknown",
    )


def _not_loaded(origin: Installed, cause: str, *, needed_by: str) -> PluginFault:
    return PluginFault(
        f'{needed_by} needs the plugin "{origin.name}", which failed to load: {cause} '
        f"(distribution {origin.distribution} {origin.version})",
        plugin=origin.name,
    )


def _cause(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:CAUSE_LENGTH_MAX] if text else type(error).__name__
