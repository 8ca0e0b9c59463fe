"""Writing one envelope: the same for a submission and for whoever asks afterwards what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sendledger.ledger import tokens
from sendledger.plugin.channel import Addressee, Attachment, Envelope, Writer
from sendledger.plugin.port import ChannelPort
from sendledger.work.context import Workshop


@dataclass(frozen=True, slots=True, kw_only=True)
class Whom:
    """One recipient and one numbered attempt; ``token_key_id`` is the key its token is made with."""

    intent_id: int
    intent_key: bytes
    number: int
    token_key_id: int
    destination: str = field(repr=False)
    variables: Mapping[str, Any] = field(repr=False)
    attachments: tuple[Attachment, ...] = field(default=(), repr=False)
    not_after: datetime | None = None


def write_envelope(shop: Workshop, port: ChannelPort, writer: Writer, whom: Whom) -> Envelope:
    """Return the envelope of *whom*. Raises ``ContentFault``."""
    token = tokens.mint(
        shop.token_keys, whom.token_key_id, intent_id=whom.intent_id, number=whom.number
    )
    addressee = Addressee(
        intent_key=whom.intent_key.hex(),
        attempt_number=whom.number,
        token=token,
        destination=whom.destination,
        variables=whom.variables,
        attachments=whom.attachments,
    )
    return Envelope(
        intent_key=addressee.intent_key,
        attempt_number=whom.number,
        token=token,
        destination=whom.destination,
        message=writer.write(addressee),
        not_after=whom.not_after,
        callback_url=shop.callback_url(port, token),
    )
