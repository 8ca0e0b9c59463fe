"""Whether Twilio signed a request: an HMAC over the address that we issued, and what was posted to it.

Scheme: Twilio's "Webhooks Security". The signature carries no time, so it is valid for ever; folding is
idempotent, so a replay changes nothing. Names and values are signed without anything between them, so
whoever reads them afterwards checks their shape.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from urllib.parse import parse_qsl, urlsplit

Parameters = Sequence[tuple[str, str]]

_SIGNATURE = "x-twilio-signature"
_SETTINGS = "x-twilio-webhooks-signature-settings"
_BODY_DIGEST = "bodySHA256"
_ALGORITHMS = {"HMAC_SHA1": "sha1", "HMAC_SHA256": "sha256"}
_PORTS = {"https": 443, "http": 80}


def is_signed(
    url: str, headers: Mapping[str, str], body: bytes, form: Parameters, *, secrets: Sequence[str]
) -> bool:
    """Whether one of *secrets* signed this request; *form* holds the parameters of a form, in any order.

    A body that is no form is signed by its digest, which the query then names.
    """
    given = headers.get(_SIGNATURE, "").encode()
    algorithm = _ALGORITHMS.get(_named_algorithm(headers.get(_SETTINGS, "")))
    if algorithm is None or not _digest_agrees(url, body, form):
        return False
    signed = "".join(name + value for name, value in sorted(set(form)))
    # Every candidate is computed, whatever the first ones say.
    agreed = [
        hmac.compare_digest(given, _signature(secret, spelling + signed, algorithm))
        for secret in secrets
        for spelling in spellings(url)
    ]
    return any(agreed)


def spellings(url: str) -> list[str]:
    """Return *url* with its port and without: Twilio signs one or the other."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return [f"{scheme}://{each}{slash}{path}" for each in _authorities(scheme, authority)]


def is_issued(url: str, form: Parameters) -> bool:
    """Whether *url* has the query that we gave it, which is none; Twilio adds the digest of a body."""
    names = [name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)]
    return names == ([] if form else [_BODY_DIGEST])


@lru_cache(maxsize=8)  # all addresses that we issue have the same
def _authorities(scheme: str, authority: str) -> Sequence[str]:
    parts = urlsplit(f"{scheme}://{authority}")
    port = parts.port or _PORTS.get(scheme)
    host = authority.removesuffix(f":{parts.port}" if parts.port else "")
    return tuple(dict.fromkeys((authority, host, f"{host}:{port}")))


def _named_algorithm(settings: str) -> str:
    pairs = (part.partition("=") for part in settings.split(","))
    named = {name.strip(): value.strip() for name, _, value in pairs}
    return named.get("algorithm", "HMAC_SHA1")


def _digest_agrees(url: str, body: bytes, form: Parameters) -> bool:
    if form:
        return True
    named = dict(parse_qsl(urlsplit(url).query)).get(_BODY_DIGEST, "")
    return hmac.compare_digest(named.encode(), sha256(body).hexdigest().encode())


def _signature(secret: str, text: str, algorithm: str) -> bytes:
    return base64.b64encode(hmac.digest(secret.encode(), text.encode(), algorithm))
