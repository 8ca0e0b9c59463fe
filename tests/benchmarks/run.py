"""Run the benchmarks, all or those named: JSON lines on stdout, what is being done on stderr.

They share one server, which is removed afterwards. Exit code 1: something that must hold did not, or a
benchmark failed; the rest is run all the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.stage import PEERS, TESTS
from sendledger.postgres import Embedded

NAMES = (
    "ledger",
    "backlog",
    "priority",
    "snapshot",
    "pickup",
    "watching",
    "callbacks",
    "planning",
    "rendering",
    "sms",
    "sms_ledger",
    "smtp",
    "postfix",
)
"""In this order: what must not be analysed comes before what may be."""
ROUNDS = {"planning": 1, "smtp": 3, "postfix": 2}
"""The most rounds of those that are long."""
TIMEOUT_S = 900


def run(name: str, options: argparse.Namespace, state: Path) -> list[str]:
    """Run one benchmark and pass its lines on; returns what did not hold."""
    rounds = min(options.rounds, ROUNDS.get(name, options.rounds))
    command = [sys.executable, "-m", f"benchmarks.bench_{name}", "--rounds", str(rounds)]
    command += ["--state", str(state), *(["--quick"] if options.quick else [])]
    missed: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TESTS) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            said = json.loads(line)
            if said.get("holds") is False:
                missed.append(f"{said['bench']}: {said['must']}")
        code = process.wait(TIMEOUT_S)
    return missed if code == 0 else [*missed, f"{name}: ended with exit code {code}"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; without any, all")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured")
    parser.add_argument("--quick", action="store_true", help="small sizes: only to see it run")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"found {', '.join(sorted(unknown))}; expected any of {', '.join(NAMES)}")
    if not PEERS.exists():
        parser.error("the peers are not installed; use `make bench`")
    missed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sendledger-bench-") as folder:
        server = Embedded(Path(folder) / "state")
        try:
            for name in options.names or NAMES:
                began = time.monotonic()
                print(f"==> {name}", file=sys.stderr, flush=True)
                missed += run(name, options, server.state_dir)
                print(f"    {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        finally:
            server.stop()
    for each in missed:
        print(f"does not hold: {each}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
