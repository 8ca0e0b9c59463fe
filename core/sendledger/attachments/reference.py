"""One attachment as it is planned: a file by its digest, and where it lies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A file that goes with a message: what it must be, where it lies and what it is called there.

    ``sha256`` is in hex; ``size_bytes`` is None when nobody has weighed it. The first three are the
    intent's; ``url`` and ``name`` may speak of a person and are erased with the rest of what does.
    """

    sha256: str
    media_type: str
    size_bytes: int | None
    url: str = field(repr=False)
    name: str = field(repr=False)


def facts_text(references: Sequence[Reference]) -> str:
    """Return what the intent holds of *references*, as JSON: nothing readable about a person."""
    return json.dumps(
        [
            {"sha256": one.sha256, "media_type": one.media_type, "bytes": one.size_bytes}
            for one in references
        ]
    )


def places_text(references: Sequence[Reference]) -> str:
    """Return what the erasable side row holds of *references*, as JSON."""
    return json.dumps([{"url": one.url, "name": one.name} for one in references])


def identity_of(references: Sequence[Reference]) -> str:
    """Return what makes *references* the same to whom they are sent; a file may move, and stays it."""
    return json.dumps([[one.sha256, one.media_type, one.name] for one in references])


def references_of(
    facts: Sequence[Mapping[str, Any]], places: Sequence[Mapping[str, Any]]
) -> tuple[Reference, ...]:
    """Return the references that are stored as *facts* and *places*."""
    return tuple(
        Reference(
            sha256=fact["sha256"],
            media_type=fact["media_type"],
            size_bytes=fact["bytes"],
            url=place["url"],
            name=place["name"],
        )
        for fact, place in zip(facts, places, strict=True)
    )
