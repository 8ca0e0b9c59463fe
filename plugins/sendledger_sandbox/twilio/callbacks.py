"""Status callbacks: signed as Twilio signs them, posted to the caller, repeated as its URL asks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import parse_qs, urldefrag, urlencode

import aiohttp
from yarl import URL

from sendledger_sandbox.twilio.journal import Called, Journal
from sendledger_sandbox.twilio.message import API_VERSION, Message
from sendledger_sandbox.twilio.outcomes import Phase
from sendledger_sandbox.twilio.provider import Provider, Where, where_of

FORM_TYPE = "application/x-www-form-urlencoded; charset=UTF-8"
RETRIES_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of status that a callback tells."""

    status: str
    error_code: int | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a callback is repeated, and after what: ct, rt, 4xx, 5xx or all.

    The fragment of a URL may say so (Twilio's webhook connection overrides: ``#rc=3&rp=all``). Without it
    one that found no connection is repeated once, and whatever was answered is final.
    """

    count: int = 1
    policy: frozenset[str] = frozenset({"ct"})

    @classmethod
    def asked_in(cls, fragment: str) -> Retries:
        """Read them from the fragment of a URL; what cannot be read there is as if it were not."""
        asked = {name: values[0] for name, values in parse_qs(fragment).items()}
        count, policy = asked.get("rc", ""), asked.get("rp")
        return cls(
            count=min(int(count), RETRIES_MAX) if count.isascii() and count.isdigit() else 1,
            policy=cls().policy if policy is None else frozenset(policy.split(",")),
        )

    def allow(self, tries: int, failure: str) -> bool:
        """Whether to try again after *tries*, the last of which ended in *failure*."""
        return tries <= self.count and not self.policy.isdisjoint({failure, "all"})


def sign(auth_token: str, url: str, fields: Mapping[str, str]) -> str:
    """Return the signature: HMAC-SHA1 over the URL and the fields in their order, base64 (docs/usage/security)."""
    signed = url + "".join(name + fields[name] for name in sorted(fields))
    made = hmac.new(auth_token.encode(), signed.encode(), hashlib.sha1)
    return base64.b64encode(made.digest()).decode()


def fields_of(message: Message, change: Change) -> dict[str, str]:
    """Return what a callback says. A receipt of the network brings its own time along, now and then."""
    fields = {
        "SmsSid": message.sid,
        "SmsStatus": change.status,
        "MessageStatus": change.status,
        "To": message.request.to,
        "MessageSid": message.sid,
        "AccountSid": message.account_sid,
        "From": message.sender or "",
        "ApiVersion": API_VERSION,
    }
    if message.request.service_sid is not None:
        fields["MessagingServiceSid"] = message.request.service_sid
    if change.error_code is not None:
        fields["ErrorCode"] = str(change.error_code)
    if change.status in {"delivered", "undelivered"} and message.sid[-1] in "02468ace":
        fields["RawDlrDoneDate"] = change.at.strftime("%y%m%d%H%M")
    return fields


class Callbacks:
    """Posts callbacks and journals each with its answer."""

    def __init__(self, provider: Provider, journal: Journal, client: aiohttp.ClientSession) -> None:
        self._provider, self._journal, self._client = provider, journal, client

    async def post(self, message: Message, change: Change, *, forged: bool = False) -> None:
        """Post one, and again as long as its URL asks for it; a caller who is away is no error."""
        url, fragment = urldefrag(message.request.callback_url or "")
        where = replace(where_of(message), status=change.status)
        await self._provider.tell(Phase.CALLBACK, where)
        tries, answer = await self._insist(url, fields_of(message, change), fragment, forged=forged)
        await self._journal.call(_called(where, change, forged=forged, tries=tries, answer=answer))
        await self._provider.tell(Phase.ACKNOWLEDGED, replace(where, answer=answer))

    async def _insist(
        self, url: str, fields: Mapping[str, str], fragment: str, *, forged: bool
    ) -> tuple[int, int | None]:
        """Post until it need not be repeated; return how often that was, and the last answer."""
        token = "a token of somebody else" if forged else self._provider.auth_token
        headers = {
            "Content-Type": FORM_TYPE,
            "User-Agent": "TwilioProxy/1.1",
            "X-Twilio-Signature": sign(token, url, fields),
            # The same for every repeat, so that the receiver can tell one.
            "I-Twilio-Idempotency-Token": secrets.token_hex(16),
        }
        retries, tries = Retries.asked_in(fragment), 0
        while True:
            tries += 1
            answer, failure = await self._try(url, urlencode(fields).encode(), headers)
            if failure is None or not retries.allow(tries, failure):
                return tries, answer

    async def _try(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int | None, str | None]:
        """Post once; return the status and, unless it is 2xx, the word of the retry policy for it."""
        wait = aiohttp.ClientTimeout(total=self._provider.callback_timeout_s)
        # What was signed is what is asked for, byte for byte.
        exact = URL(url, encoded=True)
        try:
            async with self._client.post(
                exact, data=body, headers=headers, timeout=wait, allow_redirects=False
            ) as response:
                status = response.status
        except TimeoutError:
            return None, "rt"
        except (aiohttp.ClientError, OSError):
            return None, "ct"
        return status, None if status // 100 == 2 else f"{status // 100}xx"  # noqa: PLR2004 - of 2xx


def _called(
    where: Where, change: Change, *, forged: bool, tries: int, answer: int | None
) -> Called:
    return Called(
        n=0,
        at=datetime.now(UTC),
        sid=where.sid or "",
        token=where.token,
        status=change.status,
        error_code=change.error_code,
        forged=forged,
        tries=tries,
        answer=answer,
    )
