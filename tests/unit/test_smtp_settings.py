"""Settings that cannot work, or would send in clear, are refused in a sentence that shows no secret."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sendledger.plugin import Evidence, Receipts, Secret
from sendledger.settings.describe import describe
from sendledger_smtp import SmtpSettings, Tls, sendledger_channel, settings_model

WRITTEN = {"host": "relay.sender.example", "sender": "reports@Sender.Example"}


def read(**changes: Any) -> SmtpSettings:
    return settings_model.model_validate(WRITTEN | changes)


def test_a_relay_and_a_sender_are_enough() -> None:
    settings = read()
    assert (settings.tls, settings.dial_port) == (Tls.STARTTLS, 587)
    assert settings.sender == "reports@sender.example"
    assert settings.greeting_name == "sender.example"
    assert settings.bounce_domain == settings.id_domain == "sender.example"
    assert settings.timeouts.data_end == timedelta(minutes=10)


def test_no_wait_is_shorter_than_rfc_5321_asks_in_section_4_5_3_2() -> None:
    waits = read().timeouts
    assert waits.greeting >= timedelta(minutes=5)
    assert waits.command >= timedelta(minutes=5)
    assert waits.data_init >= timedelta(minutes=2)
    assert waits.data_block >= timedelta(minutes=3)
    assert waits.data_end >= timedelta(minutes=10)


def test_every_scalar_arrives_as_text() -> None:
    settings = read(
        port="2525",
        sessions_max="3",
        idle_max="30s",
        timeouts={"greeting": "1m", "data_end": "15m"},
    )
    assert (settings.dial_port, settings.sessions_max) == (2525, 3)
    assert settings.idle_max == timedelta(seconds=30)
    assert settings.timeouts.greeting == timedelta(minutes=1)
    assert read(tls="implicit").dial_port == 465


@pytest.mark.parametrize("name", ["mail.school.test", "[192.0.2.1]", "[IPv6:2001:db8::1]"])
def test_the_name_we_give_is_a_host_name_or_an_address_literal(name: str) -> None:
    assert read(ehlo_name=name).greeting_name == name


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tls": "none"}, "loopback hosts only"),
        ({"tls": "opportunistic"}, "starttls"),
        ({"host": "relay\r\nQUIT"}, "host name or an IP address"),
        ({"host": ""}, "host name or an IP address"),
        ({"port": "0"}, "greater than or equal to 1"),
        ({"ehlo_name": "c0ffee"}, "full host name"),
        ({"ehlo_name": "a.example\r\nMAIL"}, "full host name"),
        ({"ehlo_name": "[nothing]"}, "full host name"),
        ({"return_path_domain": "bounces"}, "domain name"),
        ({"message_id_domain": "a b.example"}, "domain name"),
        ({"sender": "Reports <reports@sender.example>"}, "plain address"),
        ({"sender": "josé@sender.example"}, "must be ASCII"),
        ({"sender_name": "a\nBcc: x@y.example"}, "line breaks"),
        ({"username": "u"}, "belong together"),
        ({"password": "plain text"}, "Secret"),
        ({"timeouts": {"data_end": "1m"}}, "10m or more"),
        ({"sessions_max": "0"}, "greater than or equal to 1"),
        ({"hosst": "x"}, "Extra inputs"),
        ({"fallbacks": [{"host": "b.example", "tls": "none"}]}, "loopback hosts only"),
        ({"fallbacks": [{"host": "b.example", "username": "u"}]}, "belong together"),
        ({"fallbacks": [{"host": "b.example", "sender": "a@b.example"}]}, "Extra inputs"),
        ({"fallbacks": [{"host": "Relay.sender.example"}]}, "named twice"),
        ({"fallbacks": [{"host": f"r{n}.example"} for n in range(9)]}, "at most 8 items"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(**changes)
    assert sentence in str(caught.value)
    assert "plain text" not in str(caught.value)


def test_relays_are_tried_in_the_order_given_each_with_what_is_its_own() -> None:
    settings = read(
        username="u",
        password=Secret("hunter2"),
        fallbacks=[
            {"host": "relay.sender.example", "port": "2525"},
            {"host": "other.example", "tls": "implicit", "username": "v", "password": Secret("x")},
        ],
    )
    found = [(relay.host, relay.dial_port, relay.username) for relay in settings.relays]
    assert found == [
        ("relay.sender.example", 587, "u"),
        ("relay.sender.example", 2525, None),
        ("other.example", 465, "v"),
    ]
    assert "hunter2" not in repr(settings)
    rows = {row.path: row.value for row in describe(settings)}
    assert (rows["host"], rows["fallbacks.1.host"]) == ("relay.sender.example", "other.example")
    assert rows["password"] == rows["fallbacks.1.password"] == "***"


def test_a_fallback_elsewhere_keeps_the_patience_that_the_standard_asks_for() -> None:
    near = {"host": "localhost", "tls": "none", "timeouts": {"data_end": "1s"}}
    assert read(**near).timeouts.data_end == timedelta(seconds=1)
    with pytest.raises(ValidationError, match="10m or more"):
        read(**near, fallbacks=[{"host": "relay.sender.example"}])


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_only_this_machine_is_spoken_to_in_clear(host: str) -> None:
    assert read(host=host, tls="none", timeouts={"data_end": "1s"}).loopback


def test_a_secret_is_shown_nowhere() -> None:
    settings = read(username="u", password=Secret("hunter2"))
    assert "hunter2" not in repr(settings)


def test_the_channel_says_what_it_can_do() -> None:
    channel = sendledger_channel("email", read(host="localhost", tls="none"))
    capabilities = channel.capabilities
    assert capabilities.classification == "smtp"
    assert capabilities.receipts is Receipts.NONE
    assert capabilities.parts == {"subject": False, "text": False, "html": True}
    assert capabilities.required_parts == {"subject"}
    assert capabilities.window == timedelta(days=5)
    assert capabilities.handoff_max >= timedelta(minutes=30)
    assert channel.sender_of({"from_name": "Somebody else"}) == "reports@sender.example"


def test_the_channel_answers_the_hooks_that_need_no_network() -> None:
    channel = sendledger_channel("email", read(host="localhost", tls="none"))
    found = channel.sendledger_destination("Pat@EXAMPLE.com")
    assert (found.address, found.domain) == ("Pat@example.com", "example.com")
    evidence = Evidence(stage="dot", handed_over=True, answered=False)
    assert channel.sendledger_classify("email", evidence) is None


def test_certificates_that_cannot_be_read_stop_the_start(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    with pytest.raises(ValueError, match=r"channels\.email\.settings\.ca_file") as caught:
        sendledger_channel("email", read(ca_file=str(missing)))
    assert caught.value.__cause__ is None
    missing.write_text("not a certificate")
    with pytest.raises(ValueError, match="no readable certificates"):
        sendledger_channel("email", read(ca_file=str(missing)))
    other = {"host": "other.example", "ca_file": str(missing)}
    with pytest.raises(ValueError, match=r"channels\.email\.settings\.fallbacks\.0\.ca_file"):
        sendledger_channel("email", read(fallbacks=[other]))
