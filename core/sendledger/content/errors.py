"""What can be wrong with a template, and with the values it is given."""

from __future__ import annotations


class TemplateError(ValueError):
    """A part cannot be used as a template; says where, why, and what to write instead.

    ``line`` and ``column`` count from 1 in characters; both are 0 when the part as a whole is meant.
    """

    def __init__(self, sentence: str, *, part: str, line: int = 0, column: int = 0) -> None:
        place = f" (line {line}, column {column})" if line else ""
        super().__init__(f"{part}{place}: {sentence}")
        self.sentence = sentence
        self.part = part
        self.line = line
        self.column = column


class UnusableValue(KeyError):  # noqa: N818 - to a caller it is as good as missing
    """A variable holds something that cannot be shown. A ``KeyError``, because it is as good as missing.

    ``args[0]`` is the variable's name; ``kind`` is the type that was found, never the value.
    """

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(name)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.args[0]}: expected a text or a number, found {self.kind}"
