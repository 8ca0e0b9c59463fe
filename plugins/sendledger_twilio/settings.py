"""What a deployment says about its Twilio account; refused early, in one sentence, when it cannot work."""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import ip_address
from typing import Annotated, Self
from urllib.parse import urlsplit

import phonenumbers
from pydantic import Field, field_validator, model_validator

from sendledger.plugin import PositiveDuration, Secret, SettingsModel

API = "https://api.twilio.com"
VALIDITY_MAX = timedelta(hours=10)
"""The longest that Twilio keeps a message in its queue (ValidityPeriod, 36000 s)."""

_ACCOUNT = re.compile(r"AC[0-9a-fA-F]{32}")
_KEY = re.compile(r"SK[0-9a-fA-F]{32}")
_SERVICE = re.compile(r"MG[0-9a-fA-F]{32}")
_PLACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}|[0-9]{3,8}")
_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9 +_&-]{0,10}")


class Timeouts(SettingsModel):
    """How long each wait may last; a connection that has to be made again counts as part of the answer."""

    connect: PositiveDuration = timedelta(seconds=10)
    answer: PositiveDuration = timedelta(seconds=30)


class TwilioSettings(SettingsModel):
    """One account; its senders, and the countries that may be written to.

    ``auth_token`` verifies receipts, so it is needed even where an API key is used for the requests.
    ``secondary_auth_token`` and ``webhook_secret`` (of a SharedKey) verify receipts, too.
    """

    account_sid: str
    auth_token: Secret
    secondary_auth_token: Secret | None = None
    webhook_secret: Secret | None = None
    api_key_sid: str | None = None
    api_key_secret: Secret | None = None

    senders: tuple[str, ...] = ()
    messaging_service_sid: str | None = None

    countries: Annotated[tuple[str, ...], Field(min_length=1)]
    default_region: str | None = None
    segments_max: Annotated[int, Field(ge=1, le=24)] = 10
    smart_encoding: bool = False
    validity_max: PositiveDuration = VALIDITY_MAX

    region: str | None = None
    edge: str | None = None
    base_url: str | None = None
    sessions_max: Annotated[int, Field(ge=1, le=1000)] = 20
    look_ups_max: Annotated[int, Field(ge=1, le=100)] = 4
    idle_max: PositiveDuration = timedelta(seconds=15)
    timeouts: Timeouts = Timeouts()

    @field_validator("account_sid")
    @classmethod
    def _check_account(cls, sid: str) -> str:
        return _matching(_ACCOUNT, sid, "AC and 32 hexadecimal digits")

    @field_validator("api_key_sid")
    @classmethod
    def _check_key(cls, sid: str | None) -> str | None:
        return sid and _matching(_KEY, sid, "SK and 32 hexadecimal digits")

    @field_validator("messaging_service_sid")
    @classmethod
    def _check_service(cls, sid: str | None) -> str | None:
        return sid and _matching(_SERVICE, sid, "MG and 32 hexadecimal digits")

    @field_validator("region", "edge")
    @classmethod
    def _check_place(cls, place: str | None) -> str | None:
        return place and _matching(_PLACE, place, "a name such as ie1 or dublin")

    @field_validator("senders")
    @classmethod
    def _check_senders(cls, senders: tuple[str, ...]) -> tuple[str, ...]:
        for sender in senders:
            if not _NUMBER.fullmatch(sender) and not _NAME.fullmatch(sender):
                raise ValueError(
                    "expected numbers with + and country code, short codes, or names of at most 11 letters"
                )
        if len(set(senders)) < len(senders):
            raise ValueError("a sender is given twice; give each once")
        return senders

    @field_validator("countries")
    @classmethod
    def _check_countries(cls, countries: tuple[str, ...]) -> tuple[str, ...]:
        for country in countries:
            if country not in phonenumbers.SUPPORTED_REGIONS:
                raise ValueError("expected country codes of ISO 3166 such as US or PR")
        return countries

    @field_validator("validity_max")
    @classmethod
    def _check_validity(cls, validity: timedelta) -> timedelta:
        if not timedelta(seconds=1) <= validity <= VALIDITY_MAX:
            raise ValueError("expected 1s to 10h, which is the longest that Twilio keeps a message")
        return validity

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        whole = parts.hostname and not (
            parts.username or parts.path or parts.query or parts.fragment
        )
        if parts.scheme not in {"http", "https"} or not whole:
            raise ValueError("expected an address such as http://127.0.0.1:4010, without a path")
        if parts.scheme == "http" and not _loopback(parts.hostname or ""):
            raise ValueError("http:// is for loopback hosts only; write https://")
        return url

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if bool(self.senders) == (self.messaging_service_sid is not None):
            raise ValueError("give either senders or messaging_service_sid")
        if (self.api_key_sid is None) != (self.api_key_secret is None):
            raise ValueError("api_key_sid and api_key_secret belong together; give both or neither")
        if self.base_url is not None and (self.region or self.edge):
            raise ValueError("base_url says where to go; leave region and edge out")
        if self.default_region is not None and self.default_region not in self.countries:
            raise ValueError("default_region: expected one of the countries")
        return self

    @property
    def credentials(self) -> tuple[str, str]:
        """User name and password of the requests: the API key, or else the account itself."""
        if self.api_key_sid is not None and self.api_key_secret is not None:
            return self.api_key_sid, self.api_key_secret.reveal()
        return self.account_sid, self.auth_token.reveal()

    @property
    def signing_secrets(self) -> tuple[str, ...]:
        """Every secret that a receipt may be signed with; several while one is being replaced."""
        secrets = (self.auth_token, self.secondary_auth_token, self.webhook_secret)
        return tuple(secret.reveal() for secret in secrets if secret is not None)

    @property
    def sender_identity(self) -> str:
        """What a sender's fault pauses, and what somebody opts out of.

        All numbers of the account together: whoever opted out of one is not written to from the next.
        """
        return self.messaging_service_sid or self.account_sid

    @property
    def messages_url(self) -> str:
        """The list of the account's messages."""
        return f"{self.base_url or API}/2010-04-01/Accounts/{self.account_sid}/Messages"


def _matching(pattern: re.Pattern[str], text: str, expected: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(f"expected {expected}")
    return text


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
