"""The message resource: what was accepted, what has become of it, and how the API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlsplit

API_VERSION = "2010-04-01"

# GSM 03.38: one septet each, and those behind an escape, which take two.
_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "ÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENDED = frozenset("\f^{}\\[~]|€")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a request to create a message asked for, in order and complete."""

    to: str
    sender: str | None
    service_sid: str | None
    body: str = field(repr=False)
    callback_url: str | None = field(repr=False)
    send_at: datetime | None = None

    @property
    def token(self) -> str | None:
        """The last part of the callback's path, where the caller puts what names its attempt."""
        if self.callback_url is None:
            return None
        return urlsplit(self.callback_url).path.rpartition("/")[2] or None


@dataclass(slots=True, kw_only=True, eq=False)
class Message:
    """One accepted message; *status* and what follows change, the rest does not."""

    sid: str
    account_sid: str
    request: Request = field(repr=False)
    created_at: datetime
    sender: str | None
    status: str
    body: str = field(repr=False)
    error_code: int | None = None
    sent_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def over(self) -> bool:
        """Whether it may be deleted: nothing is under way any more."""
        return self.status not in {"accepted", "scheduled", "queued", "sending"}

    def move(self, status: str, error_code: int | None, at: datetime) -> None:
        """Change the status."""
        self.status, self.error_code, self.updated_at = status, error_code, at
        if self.sent_at is None and self.over and status not in {"failed", "canceled"}:
            self.sent_at = at

    def shown(self) -> Mapping[str, Any]:
        """Return the resource as JSON has it."""
        request, base = self.request, f"/{API_VERSION}/Accounts/{self.account_sid}"
        # The sender of a messaging service is not chosen yet, and neither is the encoding.
        counted = "0" if self.status == "accepted" else str(segments_of(request.body))
        return {
            "account_sid": self.account_sid,
            "api_version": API_VERSION,
            "body": self.body,
            "date_created": _shown_time(self.created_at),
            "date_sent": _shown_time(self.sent_at),
            "date_updated": _shown_time(self.updated_at or self.created_at),
            "direction": "outbound-api",
            "error_code": self.error_code,
            "error_message": None if self.error_code is None else "scripted",
            "from": self.sender,
            "messaging_service_sid": request.service_sid,
            "num_media": "0",
            "num_segments": counted,
            "price": None,
            "price_unit": "USD",
            "sid": self.sid,
            "status": self.status,
            "subresource_uris": {"media": f"{base}/Messages/{self.sid}/Media.json"},
            "to": request.to,
            "uri": f"{base}/Messages/{self.sid}.json",
        }


def _shown_time(at: datetime | None) -> str | None:
    return None if at is None else format_datetime(at.astimezone(UTC))


def segments_of(body: str) -> int:
    """Return how many segments *body* takes; at the edge of a segment it may be one too few."""
    if all(one in _BASIC or one in _EXTENDED for one in body):
        used, alone, joined = len(body) + sum(one in _EXTENDED for one in body), 160, 153
    else:
        used, alone, joined = len(body.encode("utf-16-le")) // 2, 70, 67
    return 1 if used <= alone else -(-used // joined)
