"""Reading what the loft posts: signed with our secret, over the address that we issued. Pure."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256

from sendledger.plugin import CallbackRefused, CallbackRequest, Receipt
from sendledger_carrierpigeon.settings import PigeonSettings
from sendledger_carrierpigeon.words import RECEIPT, REFERENCE, WORD, told

SIGNATURE = "loft-signature"


def read_callback(request: CallbackRequest, settings: PigeonSettings) -> Receipt:
    """Return what the loft tells. Raises ``CallbackRefused``, before a word of it is read that is not signed."""
    signed = f"{request.url}\n".encode() + request.body
    made = hmac.new(settings.secret.reveal().encode(), signed, sha256).hexdigest()
    given = request.headers.get(SIGNATURE, "")
    if not hmac.compare_digest(made.encode(), given.encode()):
        raise CallbackRefused("not-signed")
    said = _said(request.body)
    if said.get("loft") != settings.loft:
        raise CallbackRefused("another-loft")
    reference, word = said.get("note", ""), said.get("word", "")
    if not REFERENCE.fullmatch(reference) or not WORD.fullmatch(word):
        raise CallbackRefused("malformed", status=400)
    return told(RECEIPT, reference, word, request.body)


def _said(body: bytes) -> dict[str, str]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not all(isinstance(each, str) for each in said.values()):
        raise CallbackRefused("malformed", status=400)
    return said
