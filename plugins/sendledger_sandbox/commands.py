"""MAIL and RCPT as text: paths and parameters (RFC 5321 section 4.1, 1870, 3461, 6152, 6531). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\U0010ffff-]+"
_QUOTED = r'"(?:[ !#-\[\]-~\u0080-\U0010ffff]|\\[ -~])*"'
_LABEL = (
    r"[A-Za-z0-9\u0080-\U0010ffff](?:[A-Za-z0-9\u0080-\U0010ffff-]*[A-Za-z0-9\u0080-\U0010ffff])?"
)
_MAILBOX = re.compile(
    rf"(?P<local>{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?P<domain>{_LABEL}(?:\.{_LABEL})*|\[[!-Z^-~]+\])"
)
_PATH = re.compile(r"<(?P<path>(?:\"(?:[^\"\\]|\\.)*\"|[^\">])*)>(?P<rest>(?: .*)?)")
_PARAMETER = re.compile(
    r"(?P<key>[A-Za-z0-9][A-Za-z0-9-]*)(?:=(?P<value>[!-<>-~\u0080-\U0010ffff]+))?"
)
_XTEXT = re.compile(r"(?:[!-*,-<>-~]|\+[0-9A-F]{2})*")
_NOTIFY = re.compile(
    r"NEVER|(?:SUCCESS|FAILURE|DELAY)(?:,(?:SUCCESS|FAILURE|DELAY))*", re.IGNORECASE
)

LOCAL_PART_MAX = 64
DOMAIN_MAX = 255
ENVID_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A MAIL command: reverse path (empty for ``<>``), decoded ENVID, declared size, and what it announces."""

    path: str
    envid: str | None
    size_bytes: int
    eight_bit: bool
    utf8: bool


class CommandRefused(ValueError):  # noqa: N818 - a refusal is the word for it
    """The command cannot be taken; ``reply`` is the answer, code first."""

    def __init__(self, reply: str) -> None:
        super().__init__(reply)
        self.reply = reply


def parse_mail(argument: str, *, strict: bool = True) -> Mail:
    """Read what follows ``MAIL``. Raises :class:`CommandRefused`."""
    path, parameters = _split(argument, "FROM:", "501 5.1.7", strict=strict)
    utf8 = "SMTPUTF8" in parameters
    if path:
        _check_mailbox(path, "501 5.1.7", utf8=utf8)
    body = (parameters.get("BODY") or "7BIT").upper()
    _require(body in {"7BIT", "8BITMIME"}, "BODY")
    _require((parameters.get("RET") or "FULL").upper() in {"FULL", "HDRS"}, "RET")
    size = parameters.get("SIZE") or "0"
    _require(size.isascii() and size.isdigit(), "SIZE")
    _refuse_unknown(parameters, {"SIZE", "BODY", "SMTPUTF8", "RET", "ENVID", "AUTH"})
    envid = _envid(parameters)
    return Mail(
        path=path, envid=envid, size_bytes=int(size), eight_bit=body == "8BITMIME", utf8=utf8
    )


def parse_rcpt(argument: str, *, utf8: bool, strict: bool = True) -> str:
    """Read what follows ``RCPT`` and return the forward path. Raises :class:`CommandRefused`."""
    path, parameters = _split(argument, "TO:", "501 5.1.3", strict=strict)
    _check_mailbox(path, "501 5.1.3", utf8=utf8)
    _require(_NOTIFY.fullmatch(parameters.get("NOTIFY") or "NEVER") is not None, "NOTIFY")
    kind, found, original = (parameters.get("ORCPT") or "rfc822;").partition(";")
    _require(bool(kind and found) and (utf8 or _XTEXT.fullmatch(original) is not None), "ORCPT")
    _refuse_unknown(parameters, {"NOTIFY", "ORCPT"})
    return path


def decode_xtext(text: str) -> str:
    """Undo the xtext encoding of RFC 3461 section 4. Raises ``ValueError``."""
    if not _XTEXT.fullmatch(text):
        raise ValueError("not xtext")
    return re.sub(r"\+([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text)


def _split(
    argument: str, word: str, code: str, *, strict: bool
) -> tuple[str, dict[str, str | None]]:
    rest = argument[len(word) :] if argument.upper().startswith(word) else None
    if rest is not None and not strict:
        rest = rest.strip()
    found = _PATH.fullmatch(rest) if rest is not None else None
    if found is None:
        raise CommandRefused(f"{code} expected {word}<address>")
    return found["path"], _parameters(found["rest"])


def _parameters(text: str) -> dict[str, str | None]:
    parameters: dict[str, str | None] = {}
    for word in text.split():
        found = _PARAMETER.fullmatch(word)
        if found is None or found["key"].upper() in parameters:
            raise CommandRefused("501 5.5.4 malformed or repeated parameter")
        parameters[found["key"].upper()] = found["value"]
    return parameters


def _check_mailbox(path: str, code: str, *, utf8: bool) -> None:
    found = _MAILBOX.fullmatch(path)
    if found is None:
        raise CommandRefused(f"{code} not a mailbox")
    if len(found["local"].encode()) > LOCAL_PART_MAX or len(found["domain"].encode()) > DOMAIN_MAX:
        raise CommandRefused(
            f"{code} local part over {LOCAL_PART_MAX} or domain over {DOMAIN_MAX} octets"
        )
    if not utf8 and not path.isascii():
        raise CommandRefused("553 5.6.7 an address beyond ASCII needs SMTPUTF8")


def _require(condition: bool, name: str) -> None:  # noqa: FBT001 - reads as the sentence it is
    if not condition:
        raise CommandRefused(f"501 5.5.4 malformed parameter {name}")


def _refuse_unknown(parameters: dict[str, str | None], known: set[str]) -> None:
    if parameters.keys() - known:
        raise CommandRefused("555 5.5.4 parameter not recognised")


def _envid(parameters: dict[str, str | None]) -> str | None:
    if "ENVID" not in parameters:
        return None
    text = parameters["ENVID"] or ""
    _require(0 < len(text) <= ENVID_MAX and _XTEXT.fullmatch(text) is not None, "ENVID")
    return decode_xtext(text)
