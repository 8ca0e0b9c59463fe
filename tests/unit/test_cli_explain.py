"""What ``explain`` shows of literal evidence names nobody, whatever the provider quotes in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sendledger.cli.explain import discreet
from sendledger.cli.timeline import Story, steps
from sendledger.store.ledger_rows import AttemptRow
from sendledger.store.views import IntentRow

NUMBER = "+12025550143"
AT = datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("literal", "shown"),
    [
        (b"The 'To' number +12025550143 is bad", b"The 'To' number [hidden] is bad"),
        (b"AccountSid=AC1&To=%2B12025550143&From=2", b"AccountSid=AC1&To=[hidden]&From=2"),
        (b'{"body": "Sam has a \\"B\\"", "sid": "SM1"}', b'{"body":[hidden], "sid": "SM1"}'),
        (b'{"sid":"SM1","body":"x","to":"+12025550143"}', b'{"sid":"SM1","body":[hidden],"to":"[hidden]"}'),
    ],
)  # fmt: skip
def test_a_number_and_what_is_quoted_of_the_message_are_hidden(
    literal: bytes, shown: bytes
) -> None:
    assert discreet({2: literal}, ("S0017", NUMBER)) == {2: shown}


def test_an_address_is_hidden_and_so_is_its_local_part_alone() -> None:
    literal = b"550 5.1.1 <pat.lee@home.test>: Pat.Lee is unknown, patience"
    assert discreet({2: literal}, ("S0017", "pat.lee@home.test")) == {
        2: b"550 5.1.1 <[hidden]>: [hidden] is unknown, patience"
    }


def story(units: int | None) -> Story:
    attempt = AttemptRow(
        intent_id=1,
        seq=1,
        number=1,
        result_due_at=AT,
        unknown_due_at=AT,
        evidence_due_at=AT,
        window_ends_at=AT + timedelta(days=1),
        opened_at=AT,
        decision_seq=None,
        policy_revision="p",
        seal=bytes(8),
        units=units,
    )
    nothing: dict[str, Any] = dict.fromkeys(IntentRow.__annotations__)
    intent = IntentRow(**nothing | {"planned_at": AT, "eligible_at": AT})
    return Story(
        intent=intent,
        attempts=[attempt],
        observations=[],
        literals={},
        who=None,
        now=AT,
        units="segments",
    )


@pytest.mark.parametrize(
    ("units", "told"),
    [(None, "attempt 1 opened"), (2, "attempt 1 opened (segments: 2)")],
)
def test_an_attempt_is_told_with_what_it_is_charged_as(units: int | None, told: str) -> None:
    assert steps(story(units))[-1].what == told
