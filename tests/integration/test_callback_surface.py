"""Whatever is posted to the callbacks: never a fault of ours while the database answers, and 503 while it is away.

The requests are Schemathesis's, from a description of the route; half of them break it on purpose. Signed or
not, they are the same in every run.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from multidict import MultiDict
from schemathesis import Case, GenerationMode
from schemathesis.schemas import APIOperation
from twilio.request_validator import RequestValidator

from acceptance.rig import Site
from reception_kit import PUBLIC_URL, FrontDoor, front_door
from sendledger.ledger.tokens import mint
from sms_kit import ACCOUNT, AUTH_TOKEN, SID
from sms_site import sms_site

Described = APIOperation[Any, Any, Any, Any]

ROUTE = "/callbacks/{channel}/{token}"
FORM = "application/x-www-form-urlencoded"
WITHIN_S = 30
SOUND = {
    "AccountSid": {"enum": [ACCOUNT]},
    "MessageSid": {"enum": [SID]},
    "MessageStatus": {"type": "string", "pattern": "^[a-z]{1,20}$"},
}
"""What every receipt says."""

SAID: dict[str, Any] = {
    "type": "object",
    "required": list(SOUND),
    "properties": {
        **SOUND,
        "ErrorCode": {"type": "string", "pattern": "^[0-9]{1,6}$"},
        "To": {"type": "string"},
        "SmsStatus": {"type": "string"},
        "RawDlrDoneDate": {"type": "string"},
    },
}


RECEIPT = SAID | {"properties": SOUND, "additionalProperties": False}
TEXT = {"type": "string"}


def operation(door: FrontDoor, said: dict[str, Any] = SAID, *, to_us: bool = True) -> Described:
    """Describe the route as an OpenAPI document would; *to_us* knows a channel and a token of it."""
    keys = dict(door.desk.keys.token_keys)
    token = mint(keys, min(keys), intent_id=1, number=1)
    known = {"channel": {"enum": ["sms"]}, "token": {"enum": [token]}}
    place = known if to_us else {name: {"anyOf": [known[name], TEXT]} for name in known}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in place.items()
    ]
    content = {kind: {"schema": said} for kind in (FORM, "application/json")}
    post = {
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
        "responses": {"204": {"description": "It is in the ledger, or will be."}},
    }
    info = {"title": "Callbacks", "version": "1"}
    document = {"openapi": "3.0.3", "info": info, "paths": {ROUTE: {"post": post}}}
    return schemathesis.openapi.from_dict(document)[ROUTE]["POST"]


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    found = sms_site(tmp_path, database, installation_id)
    found.write()
    return found


def unsigned(request: requests.PreparedRequest) -> None:
    """Leave a request as it is."""


def signed(request: requests.PreparedRequest) -> None:
    """Sign a request as Twilio does: over all fields, or by the digest of what is no form."""
    body, validator = octets(request), RequestValidator(AUTH_TOKEN)
    form: MultiDict[str] = MultiDict()
    if request.headers.get("Content-Type") == FORM:
        form.extend(parse_qsl(body.decode("ascii", "replace"), keep_blank_values=True))
    if not form:
        digest = str(validator.compute_hash(body.decode("utf-8", "replace")))
        request.prepare_url(str(request.url), {"bodySHA256": digest})
    url = f"{PUBLIC_URL}{request.path_url}"
    request.headers["X-Twilio-Signature"] = str(validator.compute_signature(url, form))


def octets(request: requests.PreparedRequest) -> bytes:
    """Return what is posted."""
    body = request.body or b""
    assert isinstance(body, bytes | str)
    return body.encode() if isinstance(body, str) else body


def cases(described: Described, mode: GenerationMode, examples: int) -> list[Case[Any]]:
    """Return what Schemathesis makes of what is *described*, the same each time."""
    found: list[Case[Any]] = []

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=described.as_strategy(generation_mode=mode))
    def keep(case: Case[Any]) -> None:
        found.append(case)

    keep()
    return found


async def answers(
    door: FrontDoor,
    described: Described,
    mode: GenerationMode,
    prepare: Callable[[requests.PreparedRequest], None] = unsigned,
    *,
    examples: int = 60,
) -> Counter[int]:
    """Post what is made of what is *described*; returns how often each status was the answer."""
    told: Counter[int] = Counter()
    with requests.Session() as session:
        for case in cases(described, mode, examples):
            asked = case.as_transport_kwargs(base_url=f"http://{door.address}")
            asked.pop("cookies", None)
            request = session.prepare_request(requests.Request(**asked))
            prepare(request)
            answer = await asyncio.to_thread(session.send, request, timeout=WITHIN_S)
            assert answer.content == b""
            assert answer.status_code != 503 or answer.headers["Retry-After"].isdigit()
            told[answer.status_code] += 1
    return told


@asynccontextmanager
async def without_database(site: Site) -> AsyncIterator[FrontDoor]:
    """Lend the HTTP side of *site* as if nobody were where its database should be."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        port = nobody.getsockname()[1]
        async with front_door(site, dsn=f"postgresql://127.0.0.1:{port}/nothing") as front:
            yield front


@pytest.mark.parametrize("mode", GenerationMode)
async def test_what_nobody_signed_is_refused_and_leaves_nothing(
    mode: GenerationMode, site: Site
) -> None:
    async with front_door(site) as door:
        told = await answers(door, operation(door, to_us=False), mode, examples=30)
        told += await answers(door, operation(door), mode)
    assert told.keys() <= {400, 403, 404, 405, 415}
    assert site.count("inbox") == 0


@pytest.mark.parametrize("mode", GenerationMode)
async def test_what_is_signed_is_kept_or_refused_for_what_it_says_and_is_no_fault_of_ours(
    mode: GenerationMode, site: Site
) -> None:
    async with front_door(site) as door:
        told = await answers(door, operation(door), mode, signed)
    assert told.keys() <= {204, 400, 403, 404, 405, 415}
    assert bool(told[204]) == bool(site.count("inbox"))


async def test_every_sound_receipt_is_kept(site: Site) -> None:
    async with front_door(site) as door:
        told = await answers(door, operation(door, RECEIPT), GenerationMode.POSITIVE, signed)
    assert told.keys() == {204}
    assert 1 < site.count("inbox") <= told[204]


async def test_a_sound_receipt_is_told_to_come_again_while_the_database_is_away(
    site: Site,
) -> None:
    async with without_database(site) as door:
        told = await answers(
            door, operation(door, RECEIPT), GenerationMode.POSITIVE, signed, examples=3
        )
    assert told.keys() == {503}


async def test_what_nobody_signed_is_refused_while_the_database_is_away_as_at_any_time(
    site: Site,
) -> None:
    async with without_database(site) as door:
        told = await answers(door, operation(door), GenerationMode.POSITIVE, examples=9)
    assert told.keys() == {403}
