"""A store of files that a test takes away and brings back, known to fsspec as ``shaky://``."""

from __future__ import annotations

import io
import threading
from collections import Counter
from typing import Any, ClassVar

import fsspec
from fsspec.spec import AbstractFileSystem

ROOT = "shaky://reports"


class ShakyStore(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """Holds ``files`` by path; ``fault`` is raised by every access, ``hanging`` makes them wait for it.

    ``forbidden`` may not be read; ``refused`` counts what was asked for in vain.
    """

    protocol = "shaky"
    cachable = False
    files: ClassVar[dict[str, bytes]] = {}
    opened: ClassVar[Counter[str]] = Counter()
    fault: ClassVar[Exception | None] = None
    hanging: ClassVar[threading.Event | None] = None
    forbidden: ClassVar[frozenset[str]] = frozenset()
    refused: ClassVar[int] = 0

    @classmethod
    def restock(cls, files: dict[str, bytes]) -> None:
        """Begin again, with *files* by their URLs."""
        cls.files = {url.removeprefix("shaky://"): content for url, content in files.items()}
        cls.opened = Counter()
        cls.fault = cls.hanging = None
        cls.forbidden, cls.refused = frozenset(), 0

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        if self.hanging is not None:
            self.hanging.wait(30)
        if self.fault is not None:
            type(self).refused += 1
            raise self.fault
        if path in self.forbidden:
            raise PermissionError(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return {"name": path, "size": len(self.files[path]), "type": "file"}

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        assert mode == "rb"
        self.info(path)
        self.opened[path] += 1
        return io.BytesIO(self.files[path])


fsspec.register_implementation("shaky", ShakyStore, clobber=True)
