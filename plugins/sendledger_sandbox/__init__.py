"""Next hops of one's own, for demos, staging and tests: an SMTP capture server with scripted outcomes.

A stand-in for Twilio is beside it, in :mod:`sendledger_sandbox.twilio`.

``python -m sendledger_sandbox smtp --port 2525 --journal accepted.jsonl`` serves it; in a test::

    async with CaptureServer(journal=tmp_path / "accepted.jsonl") as server:
        ...  # point a channel at server.host, server.port
    assert len(read_journal(tmp_path / "accepted.jsonl")) == 240

The server is strict: a line ends in CRLF, a message in CRLF.CRLF, limits are limits. Each accepted message
is in the journal, on disk, before the peer hears 250.

{language}
"""

from sendledger_sandbox.journal import Accepted, JournalFault, read_journal
from sendledger_sandbox.relay import ConnectionInfo, Connections, Credentials, Observer
from sendledger_sandbox.script import LANGUAGE, Phase, ScriptFault
from sendledger_sandbox.server import CaptureServer

if __doc__ is not None:  # python -OO has none
    __doc__ = __doc__.format(language=LANGUAGE)

__all__ = [
    "Accepted",
    "CaptureServer",
    "ConnectionInfo",
    "Connections",
    "Credentials",
    "JournalFault",
    "Observer",
    "Phase",
    "ScriptFault",
    "read_journal",
]
