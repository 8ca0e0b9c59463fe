"""AUTH PLAIN and AUTH LOGIN (RFC 4954, RFC 4616), as seen by the server."""

from __future__ import annotations

import base64
import binascii
import hmac

from sendledger_sandbox.relay import Credentials
from sendledger_sandbox.wire import AUTH_LINE_MAX, Wire

MECHANISMS = ("PLAIN", "LOGIN")


class AuthRefused(Exception):  # noqa: N818 - a refusal is the word for it
    """The exchange failed; ``reply`` is the answer, code first."""

    def __init__(self, reply: str) -> None:
        super().__init__(reply)
        self.reply = reply


async def authenticate(wire: Wire, argument: str, expected: Credentials) -> None:
    """Hold the exchange that ``AUTH argument`` begins. Raises :class:`AuthRefused` unless it is *expected*."""
    mechanism, _, initial = argument.partition(" ")
    match mechanism.upper():
        case "PLAIN":
            user, password = await _plain(wire, initial)
        case "LOGIN":
            user, password = await _login(wire, initial)
        case _:
            raise AuthRefused("504 5.5.4 mechanism not offered")
    # Both are compared in any case, so that the time taken does not say which one was wrong.
    same_user = hmac.compare_digest(user, expected.user.encode())
    if not (hmac.compare_digest(password, expected.password.encode()) and same_user):
        raise AuthRefused("535 5.7.8 credentials invalid")


async def _plain(wire: Wire, initial: str) -> tuple[bytes, bytes]:
    parts = (_decode(initial) if initial else await _ask(wire, "")).split(b"\0")
    if len(parts) != len(("authorization identity", "user", "password")):
        raise AuthRefused("501 5.5.2 expected three fields separated by NUL")
    return parts[1], parts[2]


async def _login(wire: Wire, initial: str) -> tuple[bytes, bytes]:
    user = _decode(initial) if initial else await _ask(wire, "Username:")
    return user, await _ask(wire, "Password:")


async def _ask(wire: Wire, challenge: str) -> bytes:
    wire.reply(f"334 {base64.b64encode(challenge.encode()).decode()}")
    return _decode(await wire.line(AUTH_LINE_MAX))


def _decode(text: str) -> bytes:
    if text == "*":
        raise AuthRefused("501 5.7.0 exchange cancelled")
    if text == "=":
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AuthRefused("501 5.5.2 not base64") from None
