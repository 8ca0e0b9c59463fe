"""Where attachments may be taken from: below the configured roots, and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import fsspec
from fsspec.core import url_to_fs

from sendledger.attachments.faults import PlaceRefused, SchemeRefused, StoreAway

LOCAL = "file://"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


class Places:
    """The roots. A file lies below one of them by its name and, on this machine, by its links too."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(root.rstrip("/") + "/" for root in roots)
        self.schemes = tuple(sorted({_scheme(root) for root in roots}))

    def check(self, url: str) -> None:
        """Return if *url* is below a root. Touches no store.

        Raises :class:`SchemeRefused` when no root has its scheme, :class:`PlaceRefused` otherwise.
        """
        if _scheme(url) not in self.schemes:
            known = ", ".join(self.schemes) or "none"
            raise SchemeRefused(
                f"the URL of an attachment has a scheme that no root has; the roots have {known}"
            )
        # "::" would let fsspec look through one file system into another (zip::https://...).
        if _CONTROLS.search(url) or "::" in url or {".", ".."} & set(re.split(r"[/\\]", url)):
            raise PlaceRefused("the URL leads through . or .. or holds what no URL may")
        if self._root(url) is None:
            raise PlaceRefused("the file lies outside of the configured roots")

    def refuse_unusable(self) -> None:
        """Raise :class:`PlaceRefused` when there is no root, or a scheme lacks its package."""
        if not self._roots:
            raise PlaceRefused("no place is configured; name a folder in attachments.roots")
        for scheme in self.schemes:
            try:
                fsspec.get_filesystem_class(scheme)
            except (ImportError, ValueError) as error:
                raise PlaceRefused(
                    f"{scheme}:// of attachments.roots cannot be used ({error})"
                ) from None

    def locate(self, url: str) -> tuple[Any, str]:
        """Return the fsspec file system of *url* and the path there. May block.

        Raises :class:`PlaceRefused`, also when a symbolic link leads out of the root.
        """
        self.check(url)
        if not url.startswith(LOCAL):
            file_system, path = url_to_fs(url, use_listings_cache=False)
            return file_system, path
        root = self._root(url)
        assert root is not None
        path = os.path.realpath(url.removeprefix(LOCAL))
        inside = os.path.realpath(root.removeprefix(LOCAL)).rstrip("/") + "/"
        if not path.startswith(inside):
            raise PlaceRefused("a link leads out of the configured roots")
        return fsspec.filesystem("file"), path

    def refuse_lost(self, url: str) -> None:
        """Raise :class:`StoreAway` when not the file is missing but all of its root. May block.

        A disk that is not mounted leaves an empty folder behind.
        """
        root = self._root(url)
        if root is None or not root.startswith(LOCAL):
            return
        try:
            with os.scandir(root.removeprefix(LOCAL)) as entries:
                if next(entries, None) is not None:
                    return
        except FileNotFoundError:
            pass
        raise StoreAway("root-empty")

    def _root(self, url: str) -> str | None:
        return next((root for root in self._roots if url.startswith(root)), None)


def _scheme(url: str) -> str:
    found = _SCHEME.match(url)
    return found[1].lower() if found else ""
