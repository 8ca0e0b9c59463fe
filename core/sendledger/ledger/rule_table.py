"""Read a table of classification rules from plain data in which every scalar is text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from sendledger.ledger.classification import Rule
from sendledger.ledger.durations import parse_duration
from sendledger.ledger.words import Outcome, Scope, Suppress

_CONDITIONS = frozenset({"stages", "codes", "enhanced", "text", "faults", "facts"})
_VERDICT = frozenset({"outcome", "scope", "retry_floor", "attempts_max", "suppress", "opt_out"})
_KEYS = _CONDITIONS | _VERDICT | {"id"}

_ID = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")
_CODE = re.compile(r"[0-9x]{1,6}")
_ENHANCED = re.compile(r"(?:[245]|x)\.(?:[0-9]{1,3}|x)\.(?:[0-9]{1,3}|x)")
_WORD = re.compile(r"\S+")

_T = TypeVar("_T")
_Word = TypeVar("_Word", bound=StrEnum)


def parse_rules(document: Any, where: str) -> tuple[Rule, ...]:
    """Read ``{rules: [...]}`` in the order written, which is the order of precedence.

    *where* names the file in errors. Raises ``ValueError`` that names the rule and the key, for
    anything unknown, missing, contradictory or given twice.
    """
    if not isinstance(document, Mapping) or set(document) != {"rules"}:
        raise ValueError(f"{where}: expected exactly one key, rules, holding a list of rules")
    entries = document["rules"]
    if not isinstance(entries, list):
        raise ValueError(f"{where}: rules must be a list")  # noqa: TRY004 - one kind of error to catch
    rules: dict[str, Rule] = {}
    for position, entry in enumerate(entries, start=1):
        rule = _Entry(entry, f"{where}: rule {position}").rule()
        if rule.id in rules:
            raise ValueError(f"{where}: rule {rule.id}: the id is used twice; ids must be unique")
        rules[rule.id] = rule
    return tuple(rules.values())


class _Entry:
    """One rule as written; each reader names the rule and the key in what it raises."""

    def __init__(self, entry: Any, place: str) -> None:
        if not isinstance(entry, Mapping):
            raise ValueError(f"{place}: expected a mapping with an id and an outcome")  # noqa: TRY004 - as above
        self._entry = entry
        self._place = place
        self._id = self._read("id", _matching(_ID, "lower-case words joined by . or -"))
        if self._id is None:
            raise ValueError(f"{place}: id is missing")
        self._place = f"{place.rpartition(': ')[0]}: rule {self._id}"
        if unknown := sorted(set(entry) - _KEYS):
            raise self._wrong(unknown[0], f"unknown key; known are {', '.join(sorted(_KEYS))}")

    def rule(self) -> Rule:
        """Build the rule, whole and consistent."""
        outcome = self._read("outcome", _word_of(Outcome))
        if outcome is None:
            raise self._wrong("outcome", f"missing; write one of {', '.join(Outcome)}")
        if not _CONDITIONS & set(self._entry):
            raise self._wrong("stages", "a rule without any condition would match everything")
        rule = Rule(
            id=self._id or "",
            outcome=outcome,
            scope=self._read("scope", _word_of(Scope)) or Scope.RECIPIENT,
            stages=self._set("stages"),
            codes=self._list("codes", _matching(_CODE, "a pattern such as 550 or 5xx")),
            enhanced=self._list(
                "enhanced", _matching(_ENHANCED, "a pattern such as 5.1.1 or x.2.2")
            ),
            text=self._read("text", _expression),
            faults=self._set("faults"),
            facts=self._facts(),
            retry_floor=self._read("retry_floor", _duration),
            attempts_max=self._read("attempts_max", _count),
            suppress=self._read("suppress", _word_of(Suppress)) or Suppress.NONE,
            opt_out=self._read("opt_out", _yes) or False,
        )
        return self._consistent(rule)

    def _consistent(self, rule: Rule) -> Rule:
        refusal = rule.outcome is Outcome.PERMANENT and rule.scope is Scope.RECIPIENT
        if rule.suppress is not Suppress.NONE and not refusal:
            raise self._wrong("suppress", "only a permanent refusal of the recipient may suppress")
        if rule.opt_out and not refusal:
            raise self._wrong("opt_out", "only a permanent refusal of the recipient is an opt-out")
        if rule.retry_floor is not None and rule.outcome is not Outcome.TRANSIENT:
            raise self._wrong("retry_floor", "only a transient outcome is retried")
        if rule.attempts_max is not None and (
            rule.outcome is not Outcome.TRANSIENT or rule.scope.ours
        ):
            raise self._wrong("attempts_max", "only a transient refusal that is spent counts")
        return rule

    def _facts(self) -> Mapping[str, frozenset[str]]:
        facts = self._entry.get("facts", {})
        if not isinstance(facts, Mapping):
            raise self._wrong("facts", "expected a mapping of a fact's name to its values")
        return {
            str(name): frozenset(self._texts("facts", values, _text))
            for name, values in facts.items()
        }

    def _set(self, key: str) -> frozenset[str] | None:
        words = self._list(key, _matching(_WORD, "a single word"))
        return frozenset(words) if words else None

    def _list(self, key: str, read: Callable[[str], str]) -> tuple[str, ...]:
        return self._texts(key, self._entry[key], read) if key in self._entry else ()

    def _texts(self, key: str, values: Any, read: Callable[[str], str]) -> tuple[str, ...]:
        listed = values if isinstance(values, list) else [values]
        if not listed:
            raise self._wrong(key, "the list is empty; leave the key out instead")
        return tuple(self._converted(key, value, read) for value in listed)

    def _read(self, key: str, read: Callable[[str], _T]) -> _T | None:
        return self._converted(key, self._entry[key], read) if key in self._entry else None

    def _converted(self, key: str, value: Any, read: Callable[[str], _T]) -> _T:
        if not isinstance(value, str):
            raise self._wrong(key, "expected text")
        try:
            return read(value)
        except ValueError as error:
            raise self._wrong(key, str(error)) from None

    def _wrong(self, key: str, what: str) -> ValueError:
        return ValueError(f"{self._place}: {key}: {what}")


def _text(text: str) -> str:
    return text


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise ValueError(f"got {text!r}; write {expected}")
        return text

    return read


def _word_of(words: type[_Word]) -> Callable[[str], _Word]:
    def read(text: str) -> _Word:
        if text not in set(words):
            raise ValueError(f"got {text!r}; write one of {', '.join(words)}")
        return words(text)

    return read


def _expression(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode(), re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


def _duration(text: str) -> timedelta:
    return parse_duration(text)


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]?", text):
        raise ValueError(f"got {text!r}; write a number from 1 to 99")
    return int(text)


def _yes(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"got {text!r}; write true or false")
    return text == "true"
