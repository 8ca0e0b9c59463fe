"""The command line: ``python -m sendledger_sandbox smtp`` and ``twilio``."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from sendledger_sandbox.script import LANGUAGE, ScriptFault
from sendledger_sandbox.server import CaptureServer
from sendledger_sandbox.twilio import ACCOUNT_SID, AUTH_TOKEN, TwilioStandIn
from sendledger_sandbox.twilio import LANGUAGE as TWILIO_LANGUAGE

Server = CaptureServer | TwilioStandIn
PORT_MAX = 65_535


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code, 2 when it cannot start."""
    options = _parser().parse_args(argv)
    try:
        server: Server = options.server(options)
        _run(server)
    except OSError as error:
        return _refuse(_reason(error, options))
    except (ScriptFault, ValueError) as error:
        return _refuse(str(error))
    return 0


def _refuse(sentence: str) -> int:
    sys.stderr.write(f"sendledger_sandbox: cannot serve: {sentence}\n")
    return 2


def _reason(error: OSError, options: argparse.Namespace) -> str:
    """Return what the system refused: a file that *error* names, or else the address in *options*."""
    about = error.filename or f"{options.host}:{options.port}"
    # A loop wraps the system's words about an address in its own; a resolver's number is not the system's.
    if error.errno is None or isinstance(error, socket.gaierror):
        return f"{about}: {error.strerror or error}"
    return f"{about}: {os.strerror(error.errno).lower()}"


def _smtp_server(options: argparse.Namespace) -> CaptureServer:
    return CaptureServer(
        journal=options.journal,
        host=options.host,
        port=options.port,
        keep=options.keep,
        fsync=options.fsync,
        strict=not options.lenient,
        script=options.script,
    )


def _twilio_server(options: argparse.Namespace) -> TwilioStandIn:
    token_file: Path | None = options.auth_token_file
    token = AUTH_TOKEN if token_file is None else token_file.read_text("utf-8").strip()
    return TwilioStandIn(
        journal=options.journal,
        host=options.host,
        port=options.port,
        fsync=options.fsync,
        account_sid=options.account_sid,
        auth_token=token,
        script=options.script,
        numbers=dict(options.numbers),
        step_s=options.step,
    )


def _run(server: Server) -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(server))


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """Use uvloop where it is installed: it doubles what one core can take."""
    try:
        import uvloop  # noqa: PLC0415 - optional on this platform
    except ImportError:
        return None
    return uvloop.Loop


async def _serve(server: Server) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with server:
        sys.stdout.write(f"listening on {_address_of(server)}\n")
        sys.stdout.flush()
        await ended.wait()


def _address_of(server: Server) -> str:
    match server:
        case CaptureServer():
            return f"{server.host}:{server.port}"
        case TwilioStandIn():
            return server.url


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
    _add_smtp_options(smtp)
    twilio = commands.add_parser(
        "twilio",
        help="serve Twilio's messages API with signed callbacks, play outcomes chosen by number",
        description="Serve Twilio's messages API, journal each accepted message before it is answered.",
        epilog=TWILIO_LANGUAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_twilio_options(twilio)
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= PORT_MAX):
        raise argparse.ArgumentTypeError(f"expected a number from 0 to {PORT_MAX}")
    return int(text)


def _add_common_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--port", type=_port, required=True, help="port to listen on; 0 takes a free one"
    )
    command.add_argument(
        "--journal", type=Path, required=True, metavar="FILE", help="one JSON line a message"
    )
    command.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    command.add_argument(
        "--script", action="append", default=[], metavar="OUTCOME", help="play for everybody"
    )
    command.add_argument(
        "--no-fsync", dest="fsync", action="store_false", help="for benchmarks only"
    )


def _add_smtp_options(smtp: argparse.ArgumentParser) -> None:
    smtp.set_defaults(server=_smtp_server)
    _add_common_options(smtp)
    smtp.add_argument(
        "--keep", type=Path, metavar="DIR", help="also keep each message, as NNNNNN.eml"
    )
    smtp.add_argument(
        "--lenient", action="store_true", help="take a bare LF for a line end, as some do"
    )


def _add_twilio_options(twilio: argparse.ArgumentParser) -> None:
    twilio.set_defaults(server=_twilio_server)
    _add_common_options(twilio)
    twilio.add_argument(
        "--account-sid", default=ACCOUNT_SID, metavar="AC...", help="(default: %(default)s)"
    )
    twilio.add_argument(
        "--auth-token-file",
        type=Path,
        metavar="FILE",
        help=f"the secret of requests and callbacks (default: {AUTH_TOKEN})",
    )
    twilio.add_argument(
        "--number",
        dest="numbers",
        action="append",
        default=[],
        type=_numbered,
        metavar="NUMBER=OUTCOMES",
        help="play for one destination, instead of what its last digits ask for",
    )
    twilio.add_argument(
        "--step",
        type=float,
        default=0.05,
        metavar="SECONDS",
        help="between two changes of status (default: %(default)s)",
    )


def _numbered(text: str) -> tuple[str, str]:
    number, _, outcomes = text.partition("=")
    if not number.startswith("+"):
        raise argparse.ArgumentTypeError("expected NUMBER=OUTCOMES, the number in E.164 form")
    return number, outcomes
