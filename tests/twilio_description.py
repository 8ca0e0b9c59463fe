"""Twilio's own OpenAPI description of its messages API, as its command line ships it; fetched, never kept here."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from openapi_core import OpenAPI
from openapi_core.datatypes import RequestParameters

from debian_tools import UNPACKED, debian_program

PACKAGE = "@twilio/cli-core@9.0.0"
ARCHIVE = "twilio-cli-core-9.0.0.tgz"
SHA256 = "9fef3d7234dbce63ff3005a422f46fcf7e3486b369f852f61b3ede41097e5667"
MEMBER = "package/src/services/twilio-api/twilio_api_v2010.json"
FETCH_S = 100
HOST = "https://api.twilio.com"

MESSAGES = "/2010-04-01/Accounts/{AccountSid}/Messages.json"
MESSAGE = "/2010-04-01/Accounts/{AccountSid}/Messages/{Sid}.json"


def description() -> Mapping[str, Any]:
    """Return the two paths and all that they refer to. Skips where npm cannot fetch it; fails where CI is true."""
    archive = UNPACKED.parent / "npm" / ARCHIVE
    if not archive.exists():
        _fetch(archive)
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256, f"{ARCHIVE} is another one"
    with tarfile.open(archive) as packed:
        member = packed.extractfile(MEMBER)
        assert member is not None
        whole = json.load(member)
    paths = {path: whole["paths"][path] for path in (MESSAGES, MESSAGE)}
    return {
        "openapi": whole["openapi"],
        "info": whole["info"],
        "paths": paths,
        "components": {"schemas": dict(_schemas(whole, paths))},
    }


def _fetch(archive: Path) -> None:
    npm = debian_program("npm", package="npm")
    archive.parent.mkdir(parents=True, exist_ok=True)
    command = [str(npm), "pack", PACKAGE, "--silent", "--pack-destination", str(archive.parent)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=FETCH_S)
    except (subprocess.SubprocessError, OSError) as error:
        told = f"npm cannot fetch {PACKAGE}: {type(error).__name__}"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)


def _schemas(whole: Mapping[str, Any], found: object) -> Iterator[tuple[str, object]]:
    """Return the schemas that *found* refers to, and those that they refer to."""
    match found:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            schema = whole["components"]["schemas"][name]
            yield name, schema
            yield from _schemas(whole, schema)
        case dict():
            for value in found.values():
                yield from _schemas(whole, value)
        case list():
            for value in found:
                yield from _schemas(whole, value)


@dataclass(slots=True, kw_only=True)  # the validator wants what could be changed
class Asked:
    """A request, as the validator wants to see one."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = ""
    host_url: str = HOST
    parameters: RequestParameters = field(default_factory=RequestParameters)


@dataclass(slots=True, kw_only=True)
class Answered:
    """A response, as the validator wants to see one."""

    status_code: int
    data: bytes
    content_type: str = "application/json"
    headers: Mapping[str, Any] = field(default_factory=dict)


def check(api: OpenAPI, method: str, path: str, status: int, body: bytes) -> None:
    """Hold an answer against the description. Raises what the validator raises."""
    asked = Asked(method=method.lower(), path=path)
    api.validate_response(asked, Answered(status_code=status, data=body))
