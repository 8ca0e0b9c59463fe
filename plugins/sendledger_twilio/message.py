"""Write the text of an SMS: rendered, plain where that is asked for, and no longer than it may be."""

from __future__ import annotations

import re

from sendledger.plugin import Addressee, Content, ContentFault, Template
from sendledger_twilio.segments import foreign, measure
from sendledger_twilio.typography import PLAIN, write_plainly

PART = "text"
UNITS_MAX = 1600
"""The longest body that Twilio takes (its error 21617)."""

EMPTY = "sms.empty"
TOO_LONG = "sms.too-long"
TOO_MANY_SEGMENTS = "sms.too-many-segments"
CONTROL = "sms.control-character"
NOT_UNICODE = "content.not-unicode"
MISSING = "content.variable-missing"

_LINE_END = re.compile(r"\r\n?")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


class TextWriter:
    """A compiled content revision; writes the body of one message as UTF-8."""

    def __init__(self, text: Template, *, segments_max: int, smart_encoding: bool) -> None:
        self._text = text
        self._segments_max = segments_max
        self._smart_encoding = smart_encoding

    def write(self, addressee: Addressee) -> bytes:
        """Return the body, always the same for the same addressee. Raises ``ContentFault``."""
        try:
            text = self._text.render(addressee.variables)
        except KeyError as error:
            raise ContentFault(MISSING, f"text needs {error.args[0]!r}; supply it") from None
        text = _LINE_END.sub("\n", text)
        if self._smart_encoding:
            text = write_plainly(text)
        octets = _octets(text)
        self._check(text)
        return octets

    def _check(self, text: str) -> None:
        if not text.strip():
            raise ContentFault(EMPTY, "nothing is left to be read; give its values")
        if _CONTROL.search(text):
            raise ContentFault(CONTROL, "the text holds a control character; take it out")
        length = len(text.encode("utf-16-le")) // 2
        if length > UNITS_MAX:
            raise ContentFault(
                TOO_LONG, f"the text has {length} characters, of at most {UNITS_MAX}"
            )
        size = measure(text)
        if size.segments > self._segments_max:
            found = f"the text goes as {size.segments} segments of {size.encoding}"
            remedy = _remedy(text, size.segments)
            raise ContentFault(
                TOO_MANY_SEGMENTS, f"{found}, of at most {self._segments_max}; {remedy}"
            )


def compile_content(content: Content, *, segments_max: int, smart_encoding: bool) -> TextWriter:
    """Return the writer of *content*. Raises ``ContentFault`` when no message could ever be made of it."""
    if PART not in content.parts:
        raise ContentFault("content.part-missing", "there is no text; add one")
    if content.settings:
        found = min(content.settings)
        raise ContentFault("content.setting-unknown", f"found {found}; an SMS knows no settings")
    return TextWriter(content.parts[PART], segments_max=segments_max, smart_encoding=smart_encoding)


def _remedy(text: str, segments: int) -> str:
    """Say what would help. Only typography is named: a letter may be of somebody's name."""
    plain = measure(write_plainly(text)).segments
    if plain >= segments:
        return "write less, or raise segments_max"
    costly = " ".join(character for character in foreign(text) if character in PLAIN)
    return f"with smart_encoding it would go as {plain}, for {costly} can be written plainly"


def _octets(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ContentFault(NOT_UNICODE, "the text holds half a character pair") from None
