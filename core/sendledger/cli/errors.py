"""What a command says when it cannot do what it was asked."""

from __future__ import annotations


class UsageFault(Exception):  # noqa: N818 - a fault is the word for it
    """The request itself is at fault and nothing was done; ``problems`` says why, one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
