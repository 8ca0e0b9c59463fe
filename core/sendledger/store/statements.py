"""Statements are files; a missing one stops start-up, not a retry at three in the morning."""

from __future__ import annotations

from importlib.resources import files


def statement(name: str) -> bytes:
    """Return the text of ``sql/NAME.sql``. Raises ``FileNotFoundError`` when it was not shipped."""
    return files("sendledger.store").joinpath("sql", f"{name}.sql").read_bytes()
