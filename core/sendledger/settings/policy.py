"""What the policy file says: how often, how long and how patiently; and the revision that names it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    model_validator,
)
from pydantic.json_schema import WithJsonSchema

from sendledger.ledger.classification import Rule
from sendledger.ledger.policy import LookUps, Policy
from sendledger.ledger.rule_table import parse_rules
from sendledger.settings.secret import Secret
from sendledger.settings.types import Duration, PositiveDuration, SettingsModel

_MICROSECOND = timedelta(microseconds=1)


def _rule(found: Any) -> Rule:
    """Read one rule by itself, so that a fault has its line."""
    if isinstance(found, Rule):
        return found
    try:
        return parse_rules({"rules": [found]}, "")[0]
    except ValueError as error:
        raise ValueError(str(error).removeprefix(": ")) from None


def _each_once(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    if len({rule.id for rule in rules}) < len(rules):
        raise ValueError("two rules have the same id; rename one of them")
    return rules


Rules = Annotated[
    tuple[Annotated[Rule, BeforeValidator(_rule)], ...],
    AfterValidator(_each_once),
    PlainSerializer(lambda rules: [rule.id for rule in rules]),
    WithJsonSchema({"type": "array", "items": {"type": "object", "required": ["id", "outcome"]}}),
]


class RetrySettings(SettingsModel):
    """When a refused delivery is tried again.

    ``delays`` are the waits after the first, second, ... spent attempt: one more attempt than there are
    delays. ``jitter`` lengthens a wait by up to that fraction and never shortens it.
    ``attempts_hard_max`` holds a row whatever its attempts were spent on; ``give_up_after`` counts from
    the intent.
    """

    delays: tuple[PositiveDuration, ...] = Field(
        default=("30s", "2m", "8m", "30m", "1h"), min_length=1, validate_default=True
    )
    jitter: float = Field(default=0.25, ge=0, le=1, allow_inf_nan=False)
    attempts_hard_max: int = Field(default=50, ge=1, le=50)
    give_up_after: PositiveDuration | None = None

    @model_validator(mode="after")
    def _within_the_hard_max(self) -> Self:
        if len(self.delays) >= self.attempts_hard_max:
            raise ValueError(
                "attempts_hard_max leaves no room for all the delays; raise it or drop some"
            )
        return self


class UnknownSettings(SettingsModel):
    """What happens when a handoff's result stays unknown.

    After ``wait`` a person is asked (``hold``), or it is tried again at the risk of a second copy (``retry``).
    """

    wait: PositiveDuration = Field(default="1h", validate_default=True)
    then: Literal["hold", "retry"] = "hold"


class EvidenceSettings(SettingsModel):
    """How long evidence is awaited after acceptance; ``window`` replaces a channel's own, by channel name."""

    window: dict[str, PositiveDuration] = Field(default={})


class LookUpSettings(SettingsModel):
    """When a provider that can be asked is asked what became of an attempt.

    ``first_after`` an unknown result, ``silence_after`` an acceptance that nothing followed; then ever more
    rarely, at most ``at_most_every`` apart. ``per_minute`` bounds all workers together, by channel.
    """

    first_after: PositiveDuration = Field(default="1m", validate_default=True)
    silence_after: PositiveDuration = Field(default="30m", validate_default=True)
    at_most_every: PositiveDuration = Field(default="4h", validate_default=True)
    per_minute: float = Field(default=60, gt=0, le=100_000, allow_inf_nan=False)

    def typed(self) -> LookUps:
        """Return what decisions read."""
        return LookUps(
            first=self.first_after,
            silence=self.silence_after,
            longest=max(self.first_after, self.at_most_every),
            per_minute=self.per_minute,
        )


class BackOffSettings(SettingsModel):
    """How an outage closes a scope: after faults on ``intents`` distinct intents, probed ever more rarely.

    The first probe comes after ``probe``, later ones at most ``probe_max`` apart, a task after ``task_after``.
    """

    intents: int = Field(default=3, ge=1, le=1000)
    probe: PositiveDuration = Field(default="30s", validate_default=True)
    probe_max: PositiveDuration = Field(default="5m", validate_default=True)
    task_after: PositiveDuration = Field(default="30m", validate_default=True)

    @model_validator(mode="after")
    def _probes_in_order(self) -> Self:
        if self.probe_max < self.probe:
            raise ValueError("probe_max must be at least as long as probe")
        return self


class PolicySettings(SettingsModel):
    """The whole policy. As loaded, every duration is already divided by ``scale``.

    ``claims_max`` is how often a row may be claimed without opening an attempt before it is held as
    poison; ``grace`` is how late an expected event may be before it counts as stuck;
    ``classification`` holds, by plugin name, rules asked before the shipped table.
    """

    scale: float = Field(default=1, ge=1, le=1_000_000, allow_inf_nan=False)
    retry: RetrySettings = RetrySettings()
    unknown: UnknownSettings = UnknownSettings()
    evidence: EvidenceSettings = EvidenceSettings()
    look_up: LookUpSettings = LookUpSettings()
    back_off: BackOffSettings = BackOffSettings()
    claims_max: int = Field(default=20, ge=1, le=10_000)
    grace: Duration = Field(default="5m", validate_default=True)
    classification: dict[str, Rules] = Field(default={})

    def for_channel(
        self, channel: str, *, window: timedelta, revision: str, look_up: bool = False
    ) -> Policy:
        """Return what decides about *channel*, whose own evidence window, unscaled, is *window*.

        *look_up* says that its provider can be asked.
        """
        return Policy(
            revision=revision,
            retry_delays=self.retry.delays,
            jitter=self.retry.jitter,
            attempts_hard_max=self.retry.attempts_hard_max,
            give_up_after=self.retry.give_up_after,
            unknown_wait=self.unknown.wait,
            unknown_then=self.unknown.then,
            evidence_wait=self.evidence.window.get(channel, window / self.scale),
            back_off_intents=self.back_off.intents,
            probe=self.back_off.probe,
            probe_max=self.back_off.probe_max,
            task_after=self.back_off.task_after,
            claims_max=self.claims_max,
            scale=self.scale,
            look_up=self.look_up.typed() if look_up else None,
        )


def policy_revision(parts: Mapping[str, Any]) -> str:
    """Return the first 12 hex digits of a SHA-256 over everything in *parts*, in a canonical form.

    Takes models, dataclasses, mappings, sequences, sets, patterns, durations and plain values; a secret
    counts as present, not by its text, so that rotating it is no new policy. Raises ``TypeError`` for
    anything else.
    """
    canonical = json.dumps(_plain(parts), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:12]


def _plain(value: Any) -> Any:  # noqa: C901, PLR0911 - one case for each kind of value
    match value:
        case Enum():
            return _plain(value.value)
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return {"us": value // _MICROSECOND}
        case Secret():
            return {"secret": True}
        case Path() | Decimal():
            return str(value)
        case bytes():
            return {"hex": value.hex()}
        case re.Pattern():
            return {"pattern": _plain(value.pattern), "flags": value.flags}
        case BaseModel():
            return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
        case Mapping():
            return {_key(key): _plain(item) for key, item in value.items()}
        case set() | frozenset():
            return {"set": sorted(json.dumps(_plain(item), sort_keys=True) for item in value)}
        case Sequence():
            return [_plain(item) for item in value]
        case _ if dataclasses.is_dataclass(value):
            return {
                field.name: _plain(getattr(value, field.name))
                for field in dataclasses.fields(value)
            }
    raise TypeError(f"a policy revision cannot cover a {type(value).__name__}")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a policy revision cannot cover a key of type {type(key).__name__}")
    return str(key)
