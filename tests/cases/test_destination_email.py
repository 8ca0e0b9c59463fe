"""The destination_email cases: one spelling for storage, comparison and the wire; or a refusal at intake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sendledger.plugin import Destination, DestinationRefused, Outcome
from sendledger_smtp.destination import read_destination
from smtp_kit import AT_DOT, BYE, INPUTS, envelope, hand_over_once, judge
from smtp_peer import ScriptedPeer

ALTERNATIVES = yaml.safe_load((Path(__file__).parent / "alternatives.yaml").read_text())
CASES = {
    case["id"]: case
    for case in yaml.safe_load((INPUTS / "cases.yaml").read_text())["cases"]
    if case["kind"] == "destination_email"
}


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = CASES[name]["expected"]
    return found


def test_these_are_all_cases_of_this_kind() -> None:
    assert sorted(CASES) == ["eml-01", "eml-02", "eml-03", "eml-04", "eml-05"]


def test_eml_01_the_local_part_is_opaque_and_only_the_domain_folds() -> None:
    found = read_destination(CASES["eml-01"]["input_inline"])
    assert found.address == expected("eml-01")["envelope_rcpt"]
    for same in expected("eml-01")["same_destination_as"]:
        assert read_destination(same) == found
    for other in expected("eml-01")["different_from"]:
        assert read_destination(other).address != found.address
        assert read_destination(other).canonical != found.canonical


def refused(text: str) -> DestinationRefused:
    with pytest.raises(DestinationRefused) as caught:
        read_destination(text)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value


@pytest.mark.parametrize("text", CASES["eml-02"]["input_inline"])
def test_eml_02_misplaced_dots_are_refused_at_intake_with_a_reason(text: str) -> None:
    assert text in expected("eml-02")["applies_to"]
    refusal = refused(text)
    assert refusal.reason == expected("eml-02")["reason"]
    assert text not in str(refusal)


def test_eml_03_a_quoted_local_part_is_refused_at_intake() -> None:
    assert "evil" not in str(refused(CASES["eml-03"]["input_inline"]))
    assert ALTERNATIVES["eml-03"]["accepted"]["because"] == expected("eml-03")["accepted"]


def test_eml_04_all_spellings_of_a_domain_are_one_destination_without_smtputf8() -> None:
    found = {read_destination(text) for text in CASES["eml-04"]["input_inline"]}
    address = expected("eml-04")["envelope_rcpt"]
    assert found == {
        Destination(address=address, canonical=address, domain=address.partition("@")[2])
    }
    assert address.isascii()
    assert {read_destination(text) for text in expected("eml-04")["same_fingerprint"]} == found


def test_eml_05_composed_and_decomposed_names_are_one_destination() -> None:
    composed, decomposed = CASES["eml-05"]["input_inline"]
    assert composed != decomposed
    assert read_destination(composed) == read_destination(decomposed)
    local = read_destination(decomposed).canonical.partition("@")[0]
    assert local == expected("eml-05")["canonical_local"]
    assert not local.isascii()


@pytest.mark.parametrize(
    "text",
    ["Pat+School@EXAMPLE.com", "pat@BÜCHER.example", "o'neill@example.com", "a=b@example.com"],
)
async def test_the_wire_carries_exactly_the_destination_that_is_stored(text: str) -> None:
    address = read_destination(text).address
    async with ScriptedPeer(scripts=[[*AT_DOT, {"send": "250 2.0.0 Ok\r\n"}, *BYE]]) as peer:
        assert judge(await hand_over_once(peer, envelope(address))).outcome is Outcome.ACCEPTED
    assert ("C", b"RCPT TO:<%b>\r\n" % address.encode()) in peer.log[0]
    assert peer.failures == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pat",
        "@example.com",
        "pat@",
        "pat@example",
        "pat@localhost",
        "pat@[192.0.2.1]",
        "pat@example.com.",
        " pat@example.com",
        "pat@example.com\r\n",
        "pat@example.com\r\nBcc: x@evil.example",
        "pat\x00@example.com",
        "pat@exa mple.com",
        "pat(x)@example.com",
        "a@good.example(x)evil.example",
        "pat@example.com, sam@example.com",
        "Pat <pat@example.com>",
        "a" * 65 + "@example.com",
        "ü" * 33 + "@example.com",
        "a@" + "b" * 64 + ".example",
        "a@" + "b." * 125 + "example",
    ],
)
def test_what_is_no_plain_address_is_refused_and_not_repeated(text: str) -> None:
    refusal = refused(text)
    assert refusal.reason == "invalid_address"
    assert not text.strip() or text not in str(refusal)


@pytest.mark.parametrize("text", ["pat@school.test", "a" * 64 + "@example.com", "a@b.c.d.example"])
def test_addresses_up_to_the_limits_are_taken(text: str) -> None:
    assert read_destination(text).address == text
