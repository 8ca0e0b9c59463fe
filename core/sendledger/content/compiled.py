"""A set of compiled parts, and the digest that tells one set from another."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sendledger.content.errors import TemplateError
from sendledger.content.template import CompiledTemplate, compile_template

_VERSION = b"sendledger content 1"
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledContent:
    """Content as planned: the digest of its sources and settings in hex, its parts, its own settings."""

    revision_hex: str
    parts: Mapping[str, CompiledTemplate]
    settings: Mapping[str, str]

    @property
    def variables(self) -> frozenset[str]:
        """Names that every recipient must supply, over all parts."""
        return frozenset().union(*(part.variables for part in self.parts.values()))

    @property
    def names(self) -> frozenset[str]:
        """Names that any part may look up, those inside of sections included."""
        return frozenset().union(*(part.names for part in self.parts.values()))


def load_content(
    parts: Mapping[str, str],
    parts_spec: Mapping[str, bool],
    *,
    settings: Mapping[str, str] = _NOTHING,
    required: Collection[str] = (),
) -> CompiledContent:
    """Compile *parts*, sources by name; *parts_spec* says which a channel renders and whether as HTML.

    Raises :class:`TemplateError` for an unknown part, a missing one of *required*, or a bad template.
    """
    known = ", ".join(sorted(parts_spec))
    for name in sorted(parts.keys() - parts_spec.keys()):
        raise TemplateError(f"the channel has no such part; it has {known}", part=name)
    for name in sorted(set(required) - parts.keys()):
        raise TemplateError("the part is missing; the channel cannot do without it", part=name)
    compiled = {
        name: compile_template(source, name=name, html=parts_spec[name])
        for name, source in parts.items()
    }
    digest = revision(parts, settings)
    return CompiledContent(revision_hex=digest.hex(), parts=compiled, settings=dict(settings))


def revision(parts: Mapping[str, str], settings: Mapping[str, str]) -> bytes:
    """Return the SHA-256 of *parts* and *settings*, whatever order they are given in.

    Every text is preceded by its length and every mapping by its size: concatenation alone would not
    tell ``("ab", "c")`` from ``("a", "bc")``. Raises ``ValueError`` for text that UTF-8 cannot hold.
    """
    digest = hashlib.sha256(_framed(_VERSION))
    for mapping in (parts, settings):
        digest.update(len(mapping).to_bytes(8, "big"))
        for text in _texts(mapping):
            digest.update(_framed(text.encode()))
    return digest.digest()


def _texts(mapping: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(mapping):
        yield name
        yield mapping[name]


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(8, "big") + content
