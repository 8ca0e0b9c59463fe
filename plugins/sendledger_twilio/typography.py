"""Typography that GSM 03.38 lacks, written plainly, so that a text does not triple its price for a quote mark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

PLAIN: Mapping[str, str] = MappingProxyType(
    dict.fromkeys("‘’‚‛′ʹʼ`´", "'")  # noqa: RUF001
    | dict.fromkeys("“”„‟″«»", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")  # noqa: RUF001
    | dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f", " ")
    | {"…": "...", "•": "-", "‹": "<", "›": ">", "\t": " ", "\u200b": "", "\ufeff": ""}  # noqa: RUF001
)
"""Characters whose plain form says the same. Letters stay: a name is not spelled otherwise to save a segment."""

_LINK_OR_TYPOGRAPHY = re.compile(rf"https?://\S+|[{re.escape(''.join(PLAIN))}]", re.IGNORECASE)


def write_plainly(text: str) -> str:
    """Return *text* with plain quotes, dashes, spaces and dots; a link stays what it is, byte for byte."""
    return _LINK_OR_TYPOGRAPHY.sub(lambda found: PLAIN.get(found[0], found[0]), text)
