"""What an attachment may be called: one plain name, the same to the eye as to the machine."""

from __future__ import annotations

import re
import unicodedata

NAME_MAX_OCTETS = 150
"""Room for most names, and short enough for every file system (255) and every mail client."""

_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
"""The spelling of Persian and of Indian scripts needs them; all other format characters only hide."""


def clean_name(text: str) -> str:
    """Return *text* as the name of a file: its last step, without what cannot be seen or turns the text.

    ``report<U+202E>fdp.exe`` looks like ``reportexe.pdf`` in a list of attachments; without the mark it
    looks like what it is. Raises ``ValueError``, which does not quote the text.
    """
    last = _FOLDERS.sub("", unicodedata.normalize("NFC", text))
    seen = (c for c in last if c in _JOINERS or unicodedata.category(c) not in _UNSEEN)
    name = " ".join("".join(seen).split()).strip(". ")
    if not name.strip(_JOINERS):
        raise ValueError("the name of the attachment is empty")
    if len(name.encode()) > NAME_MAX_OCTETS:
        raise ValueError(
            f"the name of the attachment is longer than {NAME_MAX_OCTETS} octets in UTF-8"
        )
    return name
