"""The answers of the Twilio stand-in, held against Twilio's own OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from openapi_core import OpenAPI
from openapi_core.exceptions import OpenAPIError

from sendledger_sandbox.twilio import ACCOUNT_SID, SENDER, TwilioStandIn
from stand_in_kit import PLEASANT, Answer, ask, number, post
from twilio_description import MESSAGES, check, description

pytestmark = pytest.mark.xdist_group("twilio description")

BASE = f"/2010-04-01/Accounts/{ACCOUNT_SID}"
SERVICE = f"MG{1:032x}"
SENT_BY_NUMBER = {"To": PLEASANT, "From": SENDER, "Body": "hello"}
SENT_BY_SERVICE = {"To": PLEASANT, "MessagingServiceSid": SERVICE, "Body": "hello"}
SCHEDULED = SENT_BY_SERVICE | {"ScheduleType": "fixed", "SendAt": "2099-01-01T00:00:00Z"}


@pytest.fixture(scope="module")
def described() -> Mapping[str, Any]:
    return description()


@pytest.fixture(scope="module")
def api(described: Mapping[str, Any]) -> OpenAPI:
    return OpenAPI.from_dict(dict(described))


@pytest.fixture
async def twilio(tmp_path: Path) -> AsyncIterator[TwilioStandIn]:
    async with TwilioStandIn(journal=tmp_path / "journal", step_s=0) as stand_in:
        yield stand_in


def hold(api: OpenAPI, method: str, path: str, answer: Answer) -> Any:
    assert answer.status is not None
    check(api, method, f"{BASE}/{path}", answer.status, answer.body)
    return json.loads(answer.body) if answer.body else None


@pytest.mark.parametrize("form", [SENT_BY_NUMBER, SENT_BY_SERVICE, SCHEDULED])
async def test_what_is_created_and_changed_is_as_described(
    twilio: TwilioStandIn, api: OpenAPI, form: Mapping[str, str]
) -> None:
    made = hold(api, "POST", "Messages.json", await post(twilio, "Messages.json", form))
    path = f"Messages/{made['sid']}.json"
    change = {"Status": "canceled"} if form is SCHEDULED else {"Body": ""}
    hold(api, "POST", path, await post(twilio, path, change))


@pytest.mark.parametrize("digits", [1, 60, 66, 69])
async def test_a_message_is_as_described_wherever_it_ends(
    twilio: TwilioStandIn, api: OpenAPI, digits: int
) -> None:
    made = await post(twilio, "Messages.json", SENT_BY_NUMBER | {"To": number(digits)})
    await twilio.at_rest()
    path = f"Messages/{json.loads(made.body)['sid']}.json"
    hold(api, "GET", path, await ask(twilio, "GET", path))
    hold(api, "DELETE", path, await ask(twilio, "DELETE", path))


async def test_a_list_is_as_described_on_its_first_page_and_on_its_last(
    twilio: TwilioStandIn, api: OpenAPI
) -> None:
    for _ in range(3):
        await post(twilio, "Messages.json", SENT_BY_NUMBER)
    first = hold(api, "GET", "Messages.json", await ask(twilio, "GET", "Messages.json?PageSize=2"))
    rest = first["next_page_uri"].removeprefix(f"{BASE}/")
    last = hold(api, "GET", "Messages.json", await ask(twilio, "GET", rest))
    assert (len(first["messages"]), len(last["messages"])) == (2, 1)


async def test_answers_have_every_field_that_is_described_and_no_other(
    twilio: TwilioStandIn, described: Mapping[str, Any]
) -> None:
    made = json.loads((await post(twilio, "Messages.json", SENT_BY_NUMBER)).body)
    listed = json.loads((await ask(twilio, "GET", "Messages.json")).body)
    message = described["components"]["schemas"]["api.v2010.account.message"]
    answers = described["paths"][MESSAGES]["get"]["responses"]["200"]["content"]
    page = answers["application/json"]["schema"]
    assert set(made) == set(message["properties"])
    assert set(listed) == set(page["properties"])


@pytest.mark.parametrize(
    "lie", [{"num_segments": 1}, {"status": "teleported"}, {"sid": "SM1"}, {"error_code": "none"}]
)
def test_the_description_would_catch_a_wrong_answer(api: OpenAPI, lie: Mapping[str, Any]) -> None:
    path = f"{BASE}/Messages.json"
    check(api, "POST", path, 201, json.dumps({"num_segments": "1"}).encode())
    with pytest.raises(OpenAPIError):
        check(api, "POST", path, 201, json.dumps(lie).encode())
