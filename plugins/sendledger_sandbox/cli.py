"""The command line: ``python -m sendledger_sandbox smtp``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from sendledger_sandbox.script import LANGUAGE, ScriptFault
from sendledger_sandbox.server import CaptureServer


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code, 2 when it cannot start."""
    options = _parser().parse_args(argv)
    try:
        server = _server(options)
        _run(server)
    except (ScriptFault, OSError, ValueError) as error:
        sys.stderr.write(f"sendledger_sandbox: cannot serve: {error}\n")
        return 2
    return 0


def _server(options: argparse.Namespace) -> CaptureServer:
    return CaptureServer(
        journal=options.journal,
        host=options.host,
        port=options.port,
        keep=options.keep,
        fsync=options.fsync,
        strict=not options.lenient,
        script=options.script,
    )


def _run(server: CaptureServer) -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(server))


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """Use uvloop where it is installed: it doubles what one core can take."""
    try:
        import uvloop  # noqa: PLC0415 - optional on this platform
    except ImportError:
        return None
    return uvloop.Loop


async def _serve(server: CaptureServer) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with server:
        sys.stdout.write(f"listening on {server.host}:{server.port}\n")
        sys.stdout.flush()
        await ended.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sendledger_sandbox",
        description="Stand-ins for the next hop, for demos, staging and tests.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    smtp = commands.add_parser(
        "smtp",
        help="serve SMTP, journal what is accepted, play scripted outcomes",
        description="Serve SMTP, journal each accepted message before its 250, play scripted outcomes.",
        epilog=LANGUAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    smtp.add_argument(
        "--port", type=int, required=True, help="port to listen on; 0 takes a free one"
    )
    smtp.add_argument(
        "--journal", type=Path, required=True, metavar="FILE", help="one JSON line a message"
    )
    smtp.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    smtp.add_argument(
        "--keep", type=Path, metavar="DIR", help="also keep each message, as NNNNNN.eml"
    )
    smtp.add_argument(
        "--script", action="append", default=[], metavar="OUTCOME", help="play for everybody"
    )
    smtp.add_argument(
        "--lenient", action="store_true", help="take a bare LF for a line end, as some do"
    )
    smtp.add_argument("--no-fsync", dest="fsync", action="store_false", help="for benchmarks only")
    return parser
