"""Recipients as JSON lines: one object a line, whose values may be lists and objects."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from sendledger.cli.columns import Columns
from sendledger.cli.errors import UsageFault
from sendledger.cli.lines import Lines
from sendledger.journal.batch import DESTINATION, RECIPIENT, VARIABLE, Entry, Reject, Row


class _Refused(Exception):  # noqa: N818 - a refusal is the word for it
    def __init__(self, reason: str, remedy: str, field: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        self.field = field


class JsonlRecipients:
    """Recipients in JSON lines. A line ends where the next row begins, so a bad one holds only itself."""

    nested = True

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    async def blocks(self, columns: Columns) -> AsyncIterator[list[Entry]]:
        """Yield rows and rejects as they are there, blank lines left out. Raises :class:`UsageFault`."""
        empty = True
        while await self.lines.ready():
            first = self.lines.number + 1
            numbered = enumerate(io.BytesIO(self.lines.take()), first)
            lines = [(number, line) for number, line in numbered if not line.isspace()]
            if empty and lines:
                self._refuse_list(*lines[0])
                empty = False
            yield [_entry(number, line, columns) for number, line in lines]
        if empty:
            raise UsageFault(f"{self.lines.name}: there are no recipients; add them")

    def _refuse_list(self, number: int, line: bytes) -> None:
        if line.lstrip().startswith(b"["):
            sentence = "found a JSON list; write one object a line, without a list around them"
            raise self.lines.fault(number, sentence)


def _entry(number: int, line: bytes, columns: Columns) -> Entry:
    try:
        record = _object(line)
        return Row(
            number,
            _recipient(record, columns.recipient_id),
            _destination(record, columns.destination),
            {
                name: _value(record, key, VARIABLE + name)
                for name, key in columns.variables.items()
                if key in record or name not in columns.optional
            },
        )
    except _Refused as refused:
        return Reject(
            line=number, field=refused.field, reason=refused.reason, remedy=refused.remedy
        )


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = _decode(line.decode())
    except UnicodeDecodeError:
        raise _Refused("the line is not UTF-8", "save it in UTF-8") from None
    except json.JSONDecodeError as error:  # its words are about marks and places, never the text
        reason = f"not valid JSON ({error.msg}, column {error.colno})"
        raise _Refused(reason, "write one JSON object on the line") from None
    except RecursionError:
        raise _Refused("the line is nested too deeply", "write it flatter") from None
    except ValueError:
        raise _Refused("a number is too long", "write it as text") from None
    if not isinstance(found, dict):
        raise _Refused("the line is no JSON object", "write {...} with a value for each key")
    return found


def _recipient(record: dict[str, Any], key: str) -> str:
    found = _value(record, key, RECIPIENT)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return _text(found, RECIPIENT)


def _destination(record: dict[str, Any], key: str) -> str:
    return _text(_value(record, key, DESTINATION), DESTINATION)


def _value(record: dict[str, Any], key: str, field: str) -> Any:
    # A key that is absent is a slip of the pen; null says that there is no value.
    if key not in record:
        raise _Refused("the key is missing", "add it, with null when there is no value", field)
    return record[key]


def _text(found: Any, field: str) -> str:
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _Refused("the value is no text", "put it in quotes", field)
    return found


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("a key is given twice", "keep one of them")
    return found


def _constant(_: str) -> NoReturn:
    raise _Refused("a number is not finite", "write a number or null")


_decode = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant).decode
