"""The story of one intent, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sendledger.cli.console import show_table
from sendledger.cli.text import away, instant, iso
from sendledger.store.ledger_rows import AttemptRow, ObservationRow
from sendledger.store.views import IntentRow

LITERAL_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Everything stored about one intent; ``who`` is (recipient id, destination) when asked for.

    ``units`` is what the channel's messages are charged by.
    """

    intent: IntentRow
    attempts: Sequence[AttemptRow]
    observations: Sequence[ObservationRow]
    literals: Mapping[int, bytes] = field(repr=False)
    who: tuple[str, str] | None = field(repr=False)
    now: datetime
    places: Sequence[Mapping[str, Any]] | None = field(repr=False, default=None)
    units: str = "units"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One ledger row as it is told."""

    seq: int
    at: datetime
    what: str
    rule: str
    revision: str
    literal: str = ""


def show(console: Console, story: Story) -> None:
    """Print the story: the intent, where it stands and why, and every step."""
    intent = story.intent
    console.print(f"[bold]intent {intent.intent_key.hex()}[/bold]")
    console.print(
        f"  {escape(intent.report)} / {escape(intent.content_revision)} / {intent.channel},"
        f" purpose {escape(intent.purpose)}"
    )
    console.print(
        f"  authorised by {escape(intent.authorized_by)} on {instant(intent.authorized_at)}"
        f" ({escape(intent.authorization_id)})"
    )
    console.print(f"  content template {intent.template_revision.hex()[:12]}")
    if story.who is not None:
        console.print(f"  recipient {escape(story.who[0])}, {escape(story.who[1])}")
    for line in _attached(story):
        console.print(f"  {escape(line)}", soft_wrap=True)
    console.print(_standing(story))
    console.print()
    show_table(console, _steps_table(story))
    console.print()


def _attached(story: Story) -> Iterator[str]:
    for attachment in attachments(story):
        name = f"{attachment['name']}, " if "name" in attachment else ""
        size = "size unknown" if attachment["bytes"] is None else f"{attachment['bytes']} bytes"
        yield f"attachment {name}{attachment['media_type']}, {size}, sha256 {attachment['sha256']}"


def attachments(story: Story) -> list[dict[str, Any]]:
    """Return what goes along: digest, type and size, and the name where a person asked who it is for."""
    facts = story.intent.attachments or []
    if story.places is None:
        return [dict(fact) for fact in facts]
    return [
        {**fact, "name": place["name"]} for fact, place in zip(facts, story.places, strict=True)
    ]


def _standing(story: Story) -> str:
    intent = story.intent
    status = f"  [bold]{intent.status}[/bold], because of step {intent.because} (*)"
    if intent.contradicted:
        status += "; contradicted by later evidence"
    if intent.awaits and intent.due_at:
        due = f"{instant(intent.due_at)} ({away(intent.due_at, story.now)})"
        status += f"\n  awaits {intent.awaits}, due {due}"
    elif intent.status not in {"delivered", "failed", "suppressed"}:
        status += "\n  settled: nothing is awaited any more"
    return status


def _steps_table(story: Story) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for width in (6, 20, None):
        table.add_column(width=width, overflow="fold")
    for step in steps(story):
        mark = "*" if step.seq == story.intent.because else ""
        table.add_row(f"  {step.seq}{mark}", instant(step.at), _told_in_full(step))
    return table


def _told_in_full(step: Step) -> str:
    lines = [escape(step.what)]
    if step.literal:
        lines.append(f"evidence: {escape(step.literal)}")
    revision = f", policy {step.revision}" if step.revision else ""
    lines.append(f"[dim]{escape(step.rule)}{revision}[/dim]")
    return "\n".join(lines)


def steps(story: Story) -> list[Step]:
    """Return every step in ledger order; step 0 is the intent itself."""
    found = [_planned(story.intent)]
    found += [_opened(row, story.units) for row in story.attempts]
    found += [_observed(row, story.literals.get(row.seq)) for row in story.observations]
    return sorted(found, key=lambda step: step.seq)


def _planned(intent: IntentRow) -> Step:
    return Step(
        seq=0,
        at=intent.planned_at,
        what=f"planned, to go from {instant(intent.eligible_at)} on",
        rule=f"authorisation {intent.authorization_id}",
        revision="",
    )


def _opened(row: AttemptRow, units: str) -> Step:
    count = "" if row.units is None else f" ({units}: {row.units})"
    authority = "" if row.decision_seq is None else f", as step {row.decision_seq} decided"
    return Step(
        seq=row.seq,
        at=row.opened_at,
        what=f"attempt {row.number} opened{count}{authority}",
        rule=f"policy {row.policy_revision}",
        revision="",
    )


def _observed(row: ObservationRow, literal: bytes | None) -> Step:
    return Step(
        seq=row.seq,
        at=row.received_at,
        what=" ".join(_told(row)),
        rule=f"rule {row.rule}",
        revision=row.policy_revision,
        literal=_readable(literal),
    )


def _told(row: ObservationRow) -> Iterator[str]:
    yield from _ruled(row) if row.ruling is not None else _witnessed(row)


def _ruled(row: ObservationRow) -> Iterator[str]:
    yield f"decided ({row.actor or row.source}): {row.ruling}"
    if row.authorises is not None:
        yield f"as attempt {row.authorises}"
    if row.due_at is not None and row.ruling in {"retry", "wait"}:
        yield f"not before {instant(row.due_at)}"
    if row.cause is not None:
        yield f"until {row.cause} is mended"


def _witnessed(row: ObservationRow) -> Iterator[str]:
    about = "" if row.scope is None else f" (about the {row.scope})"
    yield f"attempt {row.attempt}: {row.outcome or 'noted'}{about}"
    if row.stage is not None:
        yield f"at {row.stage.replace('/', ', ')}"
    if row.reply_code is not None:
        yield f"with {row.reply_code} {row.enhanced_code or ''}".rstrip()
    if row.provider_reference is not None:
        yield f"as {row.provider_reference}"
    if row.source not in {"channel", "lease"}:
        yield f"by {row.source}"


def _readable(literal: bytes | None) -> str:
    """Return literal bytes as printable text; what is not is escaped, so nothing is lost or obeyed."""
    if not literal:
        return ""
    text = literal.decode("utf-8", "backslashreplace").strip()
    lines = [line.encode("unicode_escape").decode() if not line.isprintable() else line
             for line in text.splitlines()]  # fmt: skip
    told = " / ".join(lines)
    return told if len(told) <= LITERAL_MAX else told[:LITERAL_MAX] + "..."


def document(story: Story) -> dict[str, Any]:
    """Return the story as JSON; its shape is part of the interface."""
    intent = story.intent
    shown = {
        "intent_key": intent.intent_key.hex(),
        "report": intent.report,
        "content_revision": intent.content_revision,
        "channel": intent.channel,
        "purpose": intent.purpose,
        "provenance": intent.provenance,
        "correction": intent.correction,
        "template_revision": intent.template_revision.hex(),
        "authorization": {
            "id": intent.authorization_id,
            "by": intent.authorized_by,
            "at": iso(intent.authorized_at),
        },
        "attachments": attachments(story),
        "planned_at": iso(intent.planned_at),
        "eligible_at": iso(intent.eligible_at),
        "not_after": iso(intent.not_after),
        "status": intent.status,
        "awaits": intent.awaits,
        "due_at": iso(intent.due_at),
        "attempts": intent.attempt_count,
        "spent": intent.spent,
        "contradicted": intent.contradicted,
        "because": intent.because,
        "steps": [_step(row, story) for row in _rows(story)],
    }
    if story.who is not None:
        shown["recipient"] = {"id": story.who[0], "destination": story.who[1]}
    return shown


def _rows(story: Story) -> list[AttemptRow | ObservationRow]:
    return sorted([*story.attempts, *story.observations], key=lambda row: row.seq)


def _step(row: AttemptRow | ObservationRow, story: Story) -> dict[str, Any]:
    if isinstance(row, AttemptRow):
        return {
            "seq": row.seq,
            "at": iso(row.opened_at),
            "kind": "attempt",
            "attempt": row.number,
            "decision": row.decision_seq,
            "units": row.units,
            "policy_revision": row.policy_revision,
        }
    literal = story.literals.get(row.seq)
    return {
        "seq": row.seq,
        "at": iso(row.received_at),
        "kind": "decision" if row.ruling else "evidence",
        "source": row.source,
        "attempt": row.attempt,
        "outcome": row.outcome,
        "scope": row.scope,
        "ruling": row.ruling,
        "rule": row.rule,
        "due_at": iso(row.due_at),
        "authorises": row.authorises,
        "cause": row.cause,
        "stage": row.stage,
        "reply_code": row.reply_code,
        "enhanced_code": row.enhanced_code,
        "provider_reference": row.provider_reference,
        "actor": row.actor,
        "policy_revision": row.policy_revision,
        "literal": None if literal is None else literal.decode("utf-8", "backslashreplace"),
    }
