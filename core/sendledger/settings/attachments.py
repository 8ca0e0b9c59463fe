"""Where attachments may be taken from, and how much of them."""

from __future__ import annotations

import os.path
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo
from pydantic.json_schema import WithJsonSchema

from sendledger.settings.types import PositiveDuration, SettingsModel, Size

LOCAL = "file://"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_WEB = frozenset({"http", "https", "ftp"})


def _root(found: Any, info: ValidationInfo) -> str:
    if not isinstance(found, str) or not found.strip():
        raise ValueError("expected a folder, or the beginning of a URL such as s3://bucket/reports")
    url = _SCHEME.fullmatch(found)
    if url is None:
        folder = (info.context or {}).get("folder") or ""
        return LOCAL + os.path.abspath(os.path.join(folder, found))  # noqa: PTH100, PTH118 - text
    if url[1] in _WEB:
        # Redirects and names that change their address lead anywhere, also into our own network.
        raise ValueError("files are not taken from the web; name a folder or an object store")
    if "@" in url[2]:
        raise ValueError("credentials are not written here; the store's package finds its own")
    if url[1] == "file" and not url[2].startswith("/"):
        raise ValueError("expected three slashes after file:, and no host")
    return found


Root = Annotated[str, BeforeValidator(_root), WithJsonSchema({"type": "string", "minLength": 1})]
"""A folder, relative to the settings file, or the beginning of a URL; kept as a URL."""


class AttachmentSettings(SettingsModel):
    """Where attachments may be taken from; without ``roots`` from nowhere.

    A root is a folder, or the beginning of a URL that fsspec reads (``s3://bucket/reports``, with its
    package installed). ``max_bytes`` bounds one file. ``cache_bytes`` bounds what a worker keeps of
    them, and once more what it has in flight. ``fetch_max`` is how long one file may take to be read.
    """

    roots: tuple[Root, ...] = ()
    max_bytes: Size = Field(default="10MB", validate_default=True)
    cache_bytes: Size = Field(default="64MB", validate_default=True)
    fetch_max: PositiveDuration = Field(default="30s", validate_default=True)
