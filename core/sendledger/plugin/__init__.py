"""The public port: everything a plugin may import, and nothing else.

A plugin is a module named by an entry point of the group ``sendledger``. A channel plugin has a
``settings_model`` (a pydantic model) and a ``sendledger_channel`` hook that builds the channel.
"""

from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.words import Lane, Outcome, Scope, Suppress
from sendledger.plugin.channel import (
    Addressee,
    Attachment,
    Candidate,
    Capabilities,
    Channel,
    Content,
    ContentFault,
    ContentHeld,
    Deny,
    Destination,
    DestinationRefused,
    Envelope,
    Go,
    Hold,
    Observed,
    Receipts,
    Session,
    SessionRefused,
    Suppression,
    Template,
    Verdict,
    Wait,
    Writer,
)
from sendledger.plugin.receipts import Asked, CallbackRefused, CallbackRequest, Found, Receipt
from sendledger.plugin.spec import hookimpl
from sendledger.settings.secret import Secret
from sendledger.settings.types import Duration, LocalPath, PositiveDuration, SettingsModel

__all__ = [
    "Addressee",
    "Asked",
    "Attachment",
    "CallbackRefused",
    "CallbackRequest",
    "Candidate",
    "Capabilities",
    "Channel",
    "Classification",
    "Content",
    "ContentFault",
    "ContentHeld",
    "Deny",
    "Destination",
    "DestinationRefused",
    "Duration",
    "Envelope",
    "Evidence",
    "Found",
    "Go",
    "Hold",
    "Lane",
    "LocalPath",
    "Observed",
    "Outcome",
    "PositiveDuration",
    "Receipt",
    "Receipts",
    "Scope",
    "Secret",
    "Session",
    "SessionRefused",
    "SettingsModel",
    "Suppress",
    "Suppression",
    "Template",
    "Verdict",
    "Wait",
    "Writer",
    "hookimpl",
]
