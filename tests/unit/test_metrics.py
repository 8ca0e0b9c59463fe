"""What is shown to Prometheus comes from closed sets, and a zero is shown as a zero."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import chain

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import Metric

from sendledger.ledger.words import Awaits, Outcome, Scope, Status
from sendledger.metrics.exporter import COUNT_S, count_pause_s
from sendledger.metrics.families import age_families, counted_families, watched_families
from sendledger.metrics.labels import NO_SCOPE, OTHER, TASK_KINDS, Closed, Learned
from sendledger.metrics.meters import Meters
from sendledger.metrics.readings import Counted, Watched
from sendledger.metrics.receipts import ANSWERS, FATES, FOUND
from sendledger.settings.address import Address, parse_address
from sendledger.shipped import shipped
from sendledger.store.watching import Backlog, DeliveryCount, Overdue

CANARY = "Pat Doe <pat@home.test> 555-0101"
CHANNELS = ("email", "sms")
CLOSED: dict[str, set[str]] = {
    "channel": {*CHANNELS, OTHER},
    "awaits": {*Awaits, OTHER},
    "status": {*Status, OTHER},
    "outcome": {*Outcome, OTHER},
    "scope": {*Scope, NO_SCOPE, OTHER},
    "kind": {*TASK_KINDS, OTHER},
    "commit": {"opening", "accepted", "recorded", "received"},
    "answer": {*ANSWERS},
    "fate": {*FATES, OTHER},
    "found": {*FOUND, OTHER},
    "reason": {OTHER},
}
HEX = "intent_key", "destination_fingerprint"


def overdue(channel: str, awaits: str, minutes: float, key: int = 1) -> Overdue:
    return Overdue(
        channel=channel,
        awaits=awaits,
        intent_key=bytes([key]) * 16,
        destination_fingerprint=bytes([key + 100]) * 16,
        overdue=timedelta(minutes=minutes),
    )


def watched(
    rows: Iterable[Overdue] = (),
    *,
    paused: Iterable[str] = (),
    backing_off: Iterable[str] = (),
    tasks: dict[str, int] | None = None,
    backlog: Backlog | None = None,
) -> Watched:
    return Watched(
        overdue=list(rows),
        paused=frozenset(paused),
        backing_off=frozenset(backing_off),
        tasks=tasks or {},
        backlog=backlog or Backlog(inbox=None, xmin_transactions=None, xmin_held=None),
    )


def series(families: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    """Return values by sample name and label values in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def shown(seen: Watched) -> dict[tuple[str, ...], float]:
    return series(watched_families(seen, Closed(CHANNELS)))


# --- closed sets ---------------------------------------------------------------------------------


def test_no_label_value_comes_from_anywhere_but_a_closed_set() -> None:
    """Whatever a row, a plugin or a peer says, only a digest of ours and known words are shown."""
    meters = Meters(CHANNELS)
    for name in (*CHANNELS, CANARY):
        meters.channel(name).outcome(CANARY, CANARY)
        meters.channel(name).outcome(Outcome.ACCEPTED, CANARY)
        meters.channel(name).claimed(0.1)
        meters.channel(name).submitted(0.1)
        meters.receipts.answered(name, "kept", 0.1)
        meters.receipts.refused(name, CANARY)
        meters.receipts.received(name, "folded")
        meters.receipts.looked_up(name, "none")
    for commit in ("opening", "accepted", "recorded"):
        meters.group(commit)(1)
    channels = Closed(CHANNELS)
    seen = watched(
        [overdue(CANARY, CANARY, 5), overdue("email", CANARY, 5), overdue(CANARY, "retry", 5)],
        paused=[f"channel:{CANARY}", f"sender:email/{CANARY}", f"batch:{CANARY}"],
        backing_off=[f"channel:{CANARY}"],
        tasks={CANARY: 3},
    )
    counted = Counted(deliveries=[DeliveryCount(channel=CANARY, status=CANARY, rows=1)])
    families = list(
        chain(
            meters.registry.collect(),
            watched_families(seen, channels),
            counted_families(counted, channels),
            age_families(watched_s=1, counted_s=1),
        )
    )
    found: dict[str, set[str]] = {}
    for family in families:
        for sample in family.samples:
            for label, value in sample.labels.items():
                found.setdefault(label, set()).add(value)
    for label in HEX:
        assert all(len(bytes.fromhex(value)) == 16 for value in found.pop(label))
    found.pop("le")
    assert found.keys() == CLOSED.keys()
    strangers = {label: values - CLOSED[label] for label, values in found.items()}
    assert strangers == {label: set() for label in CLOSED}


def test_what_is_met_but_not_known_is_shown_as_other_and_summed() -> None:
    rows = [
        DeliveryCount(channel=channel, status="failed", rows=count)
        for channel, count in (("fax", 2), ("telex", 3), ("email", 7))
    ]
    found = series(counted_families(Counted(deliveries=rows), Closed(CHANNELS)))
    assert found["sendledger_deliveries", "other", "failed"] == 5
    assert found["sendledger_deliveries", "email", "failed"] == 7


def test_an_answer_of_an_unknown_channel_is_still_counted() -> None:
    meters = Meters(CHANNELS)
    for name in ("fax", "telex"):
        meters.channel(name).outcome(Outcome.PERMANENT, Scope.RECIPIENT)
    labels = {"channel": OTHER, "outcome": OTHER, "scope": OTHER}
    assert meters.registry.get_sample_value("sendledger_outcomes_total", labels) == 2


@pytest.mark.parametrize("outcome", [Outcome.ACCEPTED, Outcome.AMBIGUOUS, Outcome.DELIVERED])
def test_what_is_no_refusal_is_about_nothing_whatever_its_rule_says(outcome: Outcome) -> None:
    meters = Meters(CHANNELS)
    for scope in (None, *Scope):
        meters.channel("email").outcome(outcome, scope)
    labels = {"channel": "email", "outcome": outcome.value, "scope": NO_SCOPE}
    assert meters.registry.get_sample_value("sendledger_outcomes_total", labels) == 5


@pytest.mark.parametrize("outcome", [Outcome.PERMANENT, Outcome.TRANSIENT])
@pytest.mark.parametrize("scope", list(Scope))
def test_a_refusal_is_counted_with_what_it_is_about(outcome: Outcome, scope: Scope) -> None:
    meters = Meters(CHANNELS)
    meters.channel("sms").outcome(outcome, scope)
    labels = {"channel": "sms", "outcome": outcome.value, "scope": scope.value}
    assert meters.registry.get_sample_value("sendledger_outcomes_total", labels) == 1


# --- what is shown -------------------------------------------------------------------------------


def test_the_oldest_overdue_row_is_named_once_for_each_channel_and_awaited_event() -> None:
    found = shown(
        watched([overdue("email", "retry", 3, key=1), overdue("email", "result", 9, key=2)])
    )
    assert found["sendledger_oldest_overdue_seconds", "retry", "email"] == 180
    assert found["sendledger_oldest_overdue_seconds", "result", "email"] == 540
    assert [labels[1:] for labels in found if labels[0] == "sendledger_oldest_overdue_info"] == [
        ("retry", "email", "65" * 16, "01" * 16),
        ("result", "email", "66" * 16, "02" * 16),
    ]


def test_channels_that_share_the_name_other_show_the_oldest_of_them() -> None:
    rows = [overdue("fax", "retry", 3, key=1), overdue("telex", "retry", 9, key=2)]
    for order in (rows, rows[::-1]):
        found = shown(watched(order))
        assert found["sendledger_oldest_overdue_seconds", "retry", "other"] == 540
        assert ("sendledger_oldest_overdue_info", "retry", "other", "66" * 16, "02" * 16) in found


def test_nothing_overdue_is_a_zero_for_every_channel_and_awaited_event_and_names_nobody() -> None:
    found = shown(watched())
    ages = {labels: value for labels, value in found.items() if "oldest_overdue" in labels[0]}
    assert ages == {
        ("sendledger_oldest_overdue_seconds", awaits, channel): 0
        for awaits in Awaits
        for channel in CHANNELS
    }


@pytest.mark.parametrize(
    ("scope", "closed"),
    [
        ("channel:email", {"email"}),
        ("all", {"email", "sms"}),
        ("sender:email/reports@school.example", set()),
        ("channel:email-2", set()),
    ],
)
def test_a_pause_closes_the_channels_it_names(scope: str, closed: set[str]) -> None:
    found = shown(watched(paused=[scope], backing_off=["channel:sms"]))
    for channel in CHANNELS:
        assert found["sendledger_channel_paused", channel] == (channel in closed)
        assert found["sendledger_channel_backing_off", channel] == (channel == "sms")


def test_every_kind_of_task_is_counted_and_an_absent_one_is_zero() -> None:
    found = shown(watched(tasks={"failed": 4}))
    tasks = {labels[1]: value for labels, value in found.items() if "tasks_open" in labels[0]}
    assert tasks == dict.fromkeys(TASK_KINDS, 0) | {"failed": 4}


def test_ages_that_do_not_exist_are_zero_and_never_negative() -> None:
    empty = shown(watched())
    assert empty["sendledger_inbox_age_seconds",] == empty["sendledger_xmin_age_seconds",] == 0
    backlog = Backlog(
        inbox=timedelta(seconds=-1), xmin_transactions=12, xmin_held=timedelta(minutes=2)
    )
    found = shown(watched(backlog=backlog))
    assert found["sendledger_inbox_age_seconds",] == 0
    assert found["sendledger_xmin_age_seconds",] == 120
    assert found["sendledger_xmin_age_transactions",] == 12


def test_a_worker_that_did_nothing_yet_shows_zeros_so_that_the_first_answer_is_a_rise() -> None:
    text = generate_latest(Meters(["email"]).registry).decode()
    line = 'sendledger_outcomes_total{channel="email",outcome="permanent",scope="recipient"} 0.0'
    assert line in text
    assert "_created" not in text


def test_two_workers_in_one_process_count_apart() -> None:
    one, other = Meters(["email"]), Meters(["email"])
    one.channel("email").outcome(Outcome.ACCEPTED, None)
    labels = {"channel": "email", "outcome": "accepted", "scope": "none"}
    assert one.registry.get_sample_value("sendledger_outcomes_total", labels) == 1
    assert other.registry.get_sample_value("sendledger_outcomes_total", labels) == 0


def test_a_count_takes_a_twentieth_of_the_time_at_most() -> None:
    assert count_pause_s(0.01) == COUNT_S
    assert count_pause_s(3.0) == 60.0


# --- where it is shown ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9464", "127.0.0.1", 9464),
        ("localhost:0", "localhost", 0),
        ("[::1]:9464", "::1", 9464),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert address == Address(host=host, port=port)
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "9464", ":9464", "localhost", "localhost:", "localhost:65536", "::1:9464", "a:-1",
             "a:1.5", "[]:1", "a:\u0663"],
)  # fmt: skip
def test_an_address_without_a_host_or_a_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT such as"):
        parse_address(text)


def test_the_alert_is_shipped() -> None:
    assert (shipped("grafana") / "alerts" / "sendledger.yaml").is_file()


def test_a_plugins_word_for_a_refusal_is_shown_if_it_is_one_and_among_the_first() -> None:
    learned = Learned(words_max=2)
    assert [learned(word) for word in ("signature", CANARY, "account", "third", "signature")] == [
        "signature", OTHER, "account", OTHER, "signature",
    ]  # fmt: skip
