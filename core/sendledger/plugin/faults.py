"""What is said and counted when a plugin breaks a promise: names, hooks and types, never a value."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from pathlib import Path

from sendledger.logs import get_logger

log = get_logger(__name__)


class PluginFault(Exception):  # noqa: N818 - a fault is the word for it
    """A plugin broke a promise. ``plugin`` is its configured name; ``hook`` is None for its loading.

    The text is fit for an operator and a log: it holds no argument, no result and no plugin's message.
    Only a failed import shows the text of its exception, which is about code.
    """

    def __init__(self, reason: str, *, plugin: str, hook: str | None = None) -> None:
        super().__init__(f'{hook} of "{plugin}" {reason}' if hook else reason)
        self.plugin = plugin
        self.hook = hook


class Faults(Counter[tuple[str, str]]):
    """How often each ``(plugin, hook)`` broke a promise that was survived."""

    def record(self, fault: PluginFault) -> None:
        """Count *fault* and log it; whoever calls goes on."""
        hook = fault.hook or "load"
        self[fault.plugin, hook] += 1
        log.error("plugin fault", plugin=fault.plugin, hook=hook, fault=str(fault))


def contained(error: BaseException) -> bool:
    """Whether *error* is the plugin's own doing and must stop at the host.

    Ctrl-C, a closing generator and the cancellation of our own task are not. A ``CancelledError`` that
    nobody asked for is: a task group would take it for our cancellation and lose the loop in silence.
    """
    if isinstance(error, asyncio.CancelledError):
        return not _cancelling()
    return not isinstance(error, KeyboardInterrupt | GeneratorExit)


def _cancelling() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def described(error: BaseException) -> str:
    """Return the type of *error* and the line that raised it: enough to find it, nothing that leaks."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def raised(error: BaseException, *, plugin: str, hook: str) -> PluginFault:
    """Return what is known of an exception that *plugin* let out of *hook*."""
    return PluginFault(f"raised {described(error)}", plugin=plugin, hook=hook)
