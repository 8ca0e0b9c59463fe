"""Which of several senders writes to whom: always the same, so that a conversation keeps its number."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256


def choose_sender(senders: Sequence[str], destination: str) -> str:
    """Return the sender for *destination*.

    By highest random weight: another sender more takes over its share, and everybody else keeps theirs.
    """
    return max(senders, key=lambda sender: sha256(f"{sender}\0{destination}".encode()).digest())
