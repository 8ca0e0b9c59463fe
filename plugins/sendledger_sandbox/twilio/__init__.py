"""A Twilio of one's own: the messages API with signed status callbacks, and outcomes chosen by number.

``python -m sendledger_sandbox twilio --port 8400 --journal accepted.jsonl`` serves it; in a test::

    async with TwilioStandIn(journal=tmp_path / "accepted.jsonl") as twilio:
        ...  # point a client at twilio.url, with ACCOUNT_SID and AUTH_TOKEN
    assert len(read_journal(tmp_path / "accepted.jsonl").accepted) == 240

It keeps its messages: what was accepted can be fetched, listed, redacted and deleted, and changes its status
with time. Each accepted message is in the journal, on disk, before its request is answered.

{language}
"""

from sendledger_sandbox.twilio.callbacks import sign
from sendledger_sandbox.twilio.journal import Accepted, Called, Journalled, read_journal
from sendledger_sandbox.twilio.message import Message
from sendledger_sandbox.twilio.numbers import TABLE
from sendledger_sandbox.twilio.outcomes import LANGUAGE, Phase
from sendledger_sandbox.twilio.provider import ACCOUNT_SID, AUTH_TOKEN, SENDER, Observer, Where
from sendledger_sandbox.twilio.server import TwilioStandIn

if __doc__ is not None:  # python -OO has none
    __doc__ = __doc__.format(language=LANGUAGE)

__all__ = [
    "ACCOUNT_SID",
    "AUTH_TOKEN",
    "LANGUAGE",
    "SENDER",
    "TABLE",
    "Accepted",
    "Called",
    "Journalled",
    "Message",
    "Observer",
    "Phase",
    "TwilioStandIn",
    "Where",
    "read_journal",
    "sign",
]
