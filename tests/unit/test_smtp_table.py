"""The shipped SMTP table says of each reply what RFC 5321 and RFC 3463 mean by it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sendledger.plugin import Classification, Evidence, Outcome, Scope, Suppress
from sendledger_smtp.reply import take_reply
from smtp_kit import RULES, judge

T, P, A = Outcome.TRANSIENT, Outcome.PERMANENT, Outcome.ACCEPTED
RECIPIENT, MESSAGE, SENDER, CHANNEL = Scope.RECIPIENT, Scope.MESSAGE, Scope.SENDER, Scope.CHANNEL


def reply_at(stage: str, text: str) -> Evidence:
    reply = take_reply(bytearray(text.encode() + b"\r\n"))
    assert reply is not None
    return Evidence(
        stage=stage,
        handed_over=stage == "dot",
        answered=True,
        literal=reply.literal,
        reply_code=reply.code,
        enhanced_code=reply.enhanced,
    )


def fault_at(stage: str, fault: str, *, handed_over: bool = False) -> Evidence:
    return Evidence(stage=stage, handed_over=handed_over, answered=False, fault=fault)


REPLIES = [
    # session
    ("greeting", "421 4.3.2 too busy", T, CHANNEL, "smtp.closing", None),
    ("greeting", "450 not now", T, CHANNEL, "default.4yz", None),
    ("greeting", "554 5.7.1 no service for you", P, CHANNEL, "smtp.greeting-refused", None),
    ("greeting", "521 does not accept mail", P, CHANNEL, "smtp.greeting-refused", None),
    ("ehlo", "550 who are you", P, CHANNEL, "default.5yz", None),
    ("tls", "454 4.7.0 TLS not available", T, CHANNEL, "smtp.auth-unavailable", None),
    ("auth", "454 4.7.0 temporary", T, CHANNEL, "smtp.auth-unavailable", None),
    ("auth", "535 5.7.8 bad credentials", P, CHANNEL, "smtp.auth-refused", None),
    ("auth", "534 5.7.9 too weak", P, CHANNEL, "smtp.auth-refused", None),
    ("auth", "538 5.7.11 encryption required", P, CHANNEL, "smtp.auth-refused", None),
    ("mail", "530 5.7.0 authenticate first", P, CHANNEL, "smtp.auth-refused", None),
    ("rcpt", "550 5.7.8 authenticate", P, CHANNEL, "smtp.auth-refused-later", None),
    ("rcpt", "421 4.4.2 closing", T, CHANNEL, "smtp.closing", None),
    ("dot", "421 4.3.0 closing", T, CHANNEL, "smtp.closing", None),
    # sender
    ("mail", "550 not you", P, SENDER, "smtp.sender-refused", None),
    ("mail", "550 5.7.1 not you", P, SENDER, "smtp.sender-refused", None),
    ("rcpt", "550 5.1.8 bad sender domain", P, SENDER, "smtp.sender-address-refused", None),
    ("mail", "553 5.1.7 bad sender", P, SENDER, "smtp.sender-address-refused", None),
    ("rcpt", "450 4.1.8 domain not found", T, SENDER, "smtp.sender-address-unverified", None),
    ("dot", "550 5.7.26 not authenticated", P, SENDER, "smtp.sender-unauthenticated", None),
    ("rcpt", "550 5.7.23 SPF", P, SENDER, "smtp.sender-unauthenticated", None),
    ("mail", "452 4.3.1 full", T, CHANNEL, "smtp.system-unavailable", None),
    # recipient
    ("rcpt", "550 5.1.1 unknown", P, RECIPIENT, "smtp.address-unknown", None),
    ("rcpt", "550 5.1.2 no such domain", P, RECIPIENT, "smtp.address-unknown", None),
    ("rcpt", "553 5.1.3 syntax", P, RECIPIENT, "smtp.address-unknown", None),
    ("rcpt", "551 5.1.6 moved", P, RECIPIENT, "smtp.address-unknown", None),
    ("dot", "550 5.1.1 unknown", P, RECIPIENT, "smtp.address-unknown", None),
    ("rcpt", "556 5.1.10 null MX", P, RECIPIENT, "smtp.address-unknown", None),
    ("rcpt", "556 no mail", P, RECIPIENT, "smtp.domain-accepts-no-mail", None),
    ("rcpt", "550 5.1.10 null MX", P, RECIPIENT, "smtp.address-unknown", None),
    ("rcpt", "550 5.2.1 disabled", P, RECIPIENT, "smtp.mailbox-disabled", None),
    ("rcpt", "550 user unknown", P, RECIPIENT, "default.5yz", None),
    ("rcpt", "550 5.1.0 bad", P, RECIPIENT, "default.5yz", None),
    ("rcpt", "521 5.3.2 no mail", P, RECIPIENT, "default.5yz", None),
    ("rcpt", "550 5.4.1 access denied", P, RECIPIENT, "smtp.recipient-not-reachable", None),
    ("rcpt", "550 5.4.7 expired", T, RECIPIENT, "smtp.routing", None),
    ("rcpt", "450 4.4.3 no route", T, RECIPIENT, "smtp.routing", None),
    ("rcpt", "450 5.1.1 contradicts itself", T, RECIPIENT, "default.4yz", None),
    ("rcpt", "450 busy", T, RECIPIENT, "default.4yz", None),
    ("rcpt", "450 4.2.1 too fast", T, RECIPIENT, "default.4yz", None),
    ("rcpt", "552 5.2.2 full", T, RECIPIENT, "smtp.mailbox-full", 3600),
    ("rcpt", "452 4.2.2 full", T, RECIPIENT, "smtp.mailbox-full", 3600),
    ("dot", "552 5.2.2 full", T, RECIPIENT, "smtp.mailbox-full", 3600),
    ("rcpt", "552 mailbox is full", T, RECIPIENT, "smtp.mailbox-full-text", 3600),
    ("rcpt", "550 user over quota", T, RECIPIENT, "smtp.mailbox-full-text", 3600),
    ("rcpt", "552 too many recipients", T, RECIPIENT, "smtp.too-many-recipients-552", None),
    ("rcpt", "552 5.5.3 too many recipients", T, RECIPIENT, "smtp.too-many-recipients", None),
    ("rcpt", "452 4.5.3 too many", T, RECIPIENT, "smtp.too-many-recipients", None),
    ("rcpt", "550 5.7.1 blocked by policy", P, RECIPIENT, "smtp.policy-refused-recipient", None),
    ("rcpt", "451 4.7.1 greylisted", T, RECIPIENT, "smtp.greylisted", 300),
    ("rcpt", "450 4.2.0 Greylisted for 300 seconds", T, RECIPIENT, "smtp.greylisted", 300),
    ("rcpt", "450 Graylisting in action", T, RECIPIENT, "smtp.greylisted", 300),
    ("rcpt", "451 4.7.0 not yet", T, RECIPIENT, "smtp.policy-deferred", 300),
    # rate and quota
    ("rcpt", "550 Connection frequency limited", T, CHANNEL, "smtp.rate-limited", 300),
    ("dot", "554 rate limit exceeded", T, CHANNEL, "smtp.rate-limited", 300),
    ("rcpt", "550 too many messages", T, CHANNEL, "smtp.rate-limited", 300),
    ("mail", "450 4.7.1 Error: too much mail from here", T, CHANNEL, "smtp.rate-limited", 300),
    ("rcpt", "450 4.7.1 too many connections", T, CHANNEL, "smtp.rate-limited", 300),
    ("dot", "554 5.7.0 sending quota exceeded", T, CHANNEL, "smtp.sender-quota", 3600),
    ("mail", "550 5.7.1 daily message limit", T, CHANNEL, "smtp.sender-quota", 3600),
    ("dot", "550 please try again later", T, CHANNEL, "smtp.try-again-later", 300),
    ("dot", "550 5.7.28 flood", T, CHANNEL, "smtp.mail-flood", 300),
    # message
    ("mail", "552 5.3.4 too big", P, MESSAGE, "smtp.message-refused", None),
    ("mail", "552 too big", P, MESSAGE, "smtp.message-too-large", None),
    ("dot", "552 too big", P, MESSAGE, "smtp.message-too-large", None),
    ("rcpt", "550 5.2.3 too long for them", P, MESSAGE, "smtp.message-refused", None),
    ("dot", "554 5.6.0 malformed", P, MESSAGE, "smtp.message-refused", None),
    ("dot", "550 5.7.1 spam", P, MESSAGE, "smtp.policy-refused-message", None),
    ("dot", "554 no", P, MESSAGE, "smtp.message-rejected", None),
    ("dot", "554 too many hops", P, MESSAGE, "smtp.message-rejected", None),
    ("dot", "451 4.3.0 local error", T, MESSAGE, "default.4yz", None),
    ("dot", "250 ok", A, RECIPIENT, "default.2yz", None),
    ("dot", "259 fine", A, RECIPIENT, "default.2yz", None),
]


@pytest.mark.parametrize("row", REPLIES, ids=[f"{stage} {text}" for stage, text, *_ in REPLIES])
def test_a_reply_means(row: tuple[str, str, Outcome, Scope, str, int | None]) -> None:
    stage, text, outcome, scope, rule, floor_s = row
    found = judge(reply_at(stage, text))
    floor = None if floor_s is None else timedelta(seconds=floor_s)
    means = (found.outcome, found.scope, found.rule, found.retry_floor)
    assert means == (outcome, scope, rule, floor)


ADDRESS_EVIDENCE = {
    "smtp.address-unknown",
    "smtp.domain-accepts-no-mail",
    "smtp.mailbox-disabled",
}


def test_only_evidence_about_the_address_itself_suppresses() -> None:
    suppressing = {rule.id: rule for rule in RULES if rule.suppress is not Suppress.NONE}
    assert suppressing.keys() == ADDRESS_EVIDENCE
    codes = {code for rule in suppressing.values() for code in rule.enhanced}
    assert codes == {"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1"}
    for stage, text, *_, rule, _floor in REPLIES:
        suppressed = judge(reply_at(stage, text)).suppress is Suppress.DESTINATION
        assert suppressed == (rule in ADDRESS_EVIDENCE), text


@pytest.mark.parametrize("fault", ["refused", "dns", "timeout"])
def test_a_relay_that_is_not_there_is_the_channels_outage(fault: str) -> None:
    found = judge(fault_at("connect", fault))
    assert found == Classification(rule="smtp.broken", outcome=T, scope=CHANNEL)


@pytest.mark.parametrize("stage", ["greeting", "ehlo", "auth", "mail", "rcpt", "data"])
@pytest.mark.parametrize("fault", ["timeout", "closed", "protocol"])
def test_a_connection_that_breaks_before_the_handoff_is_safely_tried_again(
    stage: str, fault: str
) -> None:
    found = judge(fault_at(stage, fault))
    assert found == Classification(rule="smtp.broken", outcome=T, scope=CHANNEL)


@pytest.mark.parametrize("fault", ["timeout", "closed", "protocol"])
def test_a_connection_that_breaks_after_the_handoff_leaves_the_outcome_unknown(fault: str) -> None:
    assert judge(fault_at("dot", fault, handed_over=True)).outcome is Outcome.AMBIGUOUS


@pytest.mark.parametrize(
    ("stage", "fault", "outcome", "scope"),
    [
        ("tls", "tls", T, CHANNEL),
        ("tls", "timeout", T, CHANNEL),
        ("tls", "starttls-missing", P, CHANNEL),
        ("auth", "auth-missing", P, CHANNEL),
        ("mail", "too-large", P, MESSAGE),
        ("mail", "smtputf8-missing", P, RECIPIENT),
        ("mail", "unsafe-argument", P, RECIPIENT),
    ],
)
def test_a_step_that_cannot_be_taken_is_about_what_stands_in_its_way(
    stage: str, fault: str, outcome: Outcome, scope: Scope
) -> None:
    found = judge(fault_at(stage, fault))
    assert (found.outcome, found.scope, found.suppress) == (outcome, scope, Suppress.NONE)
