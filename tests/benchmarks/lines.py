"""What a benchmark says: one JSON object a line on stdout, and how far it is on stderr."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a benchmark is run. ``state`` is a server's state directory to share; None for one of its own."""

    rounds: int
    quick: bool
    state: Path | None

    def size(self, rows: int, *, quick: int) -> int:
        """Return how many rows to take: *quick* of them in a quick run."""
        return quick if self.quick else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One result: *value* beside *versus*, both in *unit*, and the first divided by the second.

    ``must`` is what has to hold (``ratio >= 10``, ``value < 50``), ``holds`` whether it does.
    """

    bench: str
    value: float
    unit: str
    versus: float | None = None
    must: str | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if not self.versus else self.value / self.versus

    @property
    def holds(self) -> bool | None:
        if self.must is None:
            return None
        subject, relation, bound = self.must.split()
        found = self.ratio if subject == "ratio" else self.value
        if found is None:
            return False
        return {
            ">=": found >= float(bound),
            "<=": found <= float(bound),
            "<": found < float(bound),
            "==": found == float(bound),
        }[relation]


def say(line: Line) -> None:
    """Print *line* at once, so that a run that is cut short has said what it knew."""
    said: dict[str, object] = {
        "bench": line.bench,
        "value": _rounded(line.value),
        "unit": line.unit,
        "versus": _rounded(line.versus),
        "ratio": _rounded(line.ratio),
    }
    if line.must is not None:
        said |= {"must": line.must, "holds": line.holds}
    if line.note:
        said["note"] = line.note
    print(json.dumps(said), flush=True)


def progress(text: str) -> None:
    """Say on stderr what is being done."""
    print(f"  {text}", file=sys.stderr, flush=True)


def middle(values: Sequence[float]) -> float:
    """Return the median of *values*."""
    return float(median(values))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that *share* of *values* do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def read_options(description: str | None, arguments: Sequence[str] | None = None) -> Options:
    """Read the options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured")
    parser.add_argument("--quick", action="store_true", help="small sizes: only to see it run")
    parser.add_argument("--state", type=Path, help="share the server of this state directory")
    found = parser.parse_args(arguments)
    return Options(rounds=found.rounds, quick=found.quick, state=found.state)


def _rounded(value: float | None) -> float | None:
    if value is None:
        return None
    return round(value) if abs(value) >= 1000 else float(f"{value:.3g}")
