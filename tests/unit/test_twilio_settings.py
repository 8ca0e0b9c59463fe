"""Settings of the SMS channel: what cannot work is refused in one sentence that names no secret."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from sendledger.plugin import Receipts, Secret
from sendledger_twilio import TwilioSettings, sendledger_channel
from sendledger_twilio.account import Account
from sms_kit import ACCOUNT, AUTH_TOKEN, SENDER, SERVICE, settings_for

KEY = "SK00000000000000000000000000000001"
OTHER = "another secret"


def test_the_defaults_are_those_of_the_page() -> None:
    settings = settings_for()
    assert settings.segments_max == 10
    assert settings.validity_max == timedelta(hours=10)
    assert settings.smart_encoding is False
    assert settings.messages_url == (
        f"https://api.twilio.com/2010-04-01/Accounts/{ACCOUNT}/Messages"
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"account_sid": "SK" + "0" * 32}, "AC and 32 hexadecimal digits"),
        ({"auth_token": "plain text"}, "Secret"),
        ({"auth_token": None}, "Field required"),
        ({"api_key_sid": KEY}, "belong together"),
        ({"api_key_secret": Secret(OTHER)}, "belong together"),
        ({"api_key_sid": "AC1", "api_key_secret": Secret(OTHER)}, "SK and 32"),
        ({"senders": None}, "either senders or messaging_service_sid"),
        ({"messaging_service_sid": SERVICE}, "either senders or messaging_service_sid"),
        ({"senders": ["15005550006 x"]}, "numbers with + and country code"),
        ({"senders": ["Name That Is Long"]}, "numbers with + and country code"),
        ({"senders": [SENDER, SENDER]}, "given twice"),
        ({"senders": None, "messaging_service_sid": "MG1"}, "MG and 32"),
        ({"countries": []}, "at least 1"),
        ({"countries": None, "default_region": None}, "Field required"),
        ({"countries": ["USA"]}, "ISO 3166"),
        ({"default_region": "DE"}, "one of the countries"),
        ({"segments_max": "0"}, "greater than or equal to 1"),
        ({"validity_max": "11h"}, "1s to 10h"),
        ({"region": "ie1.evil"}, "a name such as ie1"),
        ({"base_url": "http://127.0.0.1:1", "region": "ie1"}, "leave region and edge out"),
        ({"base_url": "http://api.example"}, "loopback hosts only"),
        ({"base_url": "http://user@127.0.0.1"}, "without a path"),
        ({"base_url": "https://api.example/x"}, "without a path"),
        ({"base_url": "127.0.0.1:80"}, "an address such as"),
        ({"unknown": "1"}, "Extra inputs"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings_for(**changes)
    assert sentence in str(caught.value)
    assert "plain text" not in str(caught.value)
    assert OTHER not in str(caught.value)


@pytest.mark.parametrize("sender", [SENDER, "32665", "School", "My School 2"])
def test_numbers_short_codes_and_names_may_send(sender: str) -> None:
    assert settings_for(senders=[sender]).senders == (sender,)


@pytest.mark.parametrize("url", ["http://127.0.0.1:4010", "http://[::1]:4010", "http://localhost"])
def test_only_this_machine_is_spoken_to_in_clear(url: str) -> None:
    assert settings_for(url).messages_url.startswith(f"{url}/2010-04-01/")


@pytest.mark.parametrize(
    ("changes", "host"),
    [
        ({}, "api.twilio.com"),
        ({"region": "ie1", "edge": "dublin"}, "api.dublin.ie1.twilio.com"),
        ({"edge": "sydney"}, "api.sydney.us1.twilio.com"),
    ],
)
def test_region_and_edge_name_the_host(changes: dict[str, str], host: str) -> None:
    settings = settings_for(**changes)
    url = Account(settings).host_url
    assert url.startswith(f"https://{host}/2010-04-01/Accounts/{ACCOUNT}/")


def test_an_api_key_asks_and_the_auth_token_still_verifies() -> None:
    settings = settings_for(api_key_sid=KEY, api_key_secret=Secret(OTHER))
    assert settings.credentials == (KEY, OTHER)
    assert settings.signing_secrets == (AUTH_TOKEN,)


def test_receipts_may_be_signed_with_any_of_the_accounts_secrets() -> None:
    settings = settings_for(secondary_auth_token=Secret("b"), webhook_secret=Secret("c"))
    assert settings.signing_secrets == (AUTH_TOKEN, "b", "c")


def test_a_secret_is_shown_nowhere() -> None:
    assert AUTH_TOKEN not in repr(settings_for())
    assert AUTH_TOKEN not in str(settings_for())


def test_an_opt_out_holds_for_all_numbers_of_the_account() -> None:
    one, two = settings_for(), settings_for(senders=[SENDER, "32665"])
    assert one.sender_identity == two.sender_identity == ACCOUNT
    service = settings_for(senders=None, messaging_service_sid=SERVICE)
    assert service.sender_identity == SERVICE


def test_the_channel_says_what_it_can_do() -> None:
    capabilities = sendledger_channel(settings_for()).capabilities
    assert capabilities.receipts is Receipts.DELIVERED
    assert capabilities.look_up
    assert not capabilities.absence_is_proof
    assert not capabilities.idempotent
    assert (capabilities.units, capabilities.classification) == ("segments", "twilio")
    assert capabilities.handoff_max >= timedelta(minutes=2)
    assert capabilities.parts == {"text": False}


def test_the_model_is_the_plugins() -> None:
    assert TwilioSettings.model_validate(dict(settings_for())) == settings_for()
