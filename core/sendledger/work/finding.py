"""What is asked about a row, and what follows from the answer. Pure; decided under the row's lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime

from sendledger.journal.advance import Entry, Standing
from sendledger.ledger import decisions
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.findings import Finding, absent, event_identity, later_of
from sendledger.ledger.policy import Policy
from sendledger.ledger.rows import Attempt, Delivery
from sendledger.ledger.schedule import look_after, spread
from sendledger.ledger.words import Awaits, Source, Status
from sendledger.plugin.receipts import Found, Receipt

Classify = Callable[[Evidence], Classification]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a look-up brought for one attempt of an intent.

    ``absence_is_proof`` is what the channel declares of an attempt that its provider does not know;
    ``shared`` says that another attempt could lay claim to the very message that was found.
    """

    intent_id: int
    number: int
    found: Found
    absence_is_proof: bool = False
    shared: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """Intent and number of the attempt."""
        return self.intent_id, self.number

    @property
    def references(self) -> frozenset[str]:
        """The provider references that it brought."""
        found = (receipt.evidence.provider_reference for receipt in self.found.receipts)
        return frozenset(reference for reference in found if reference is not None)

    @property
    def word(self) -> str:
        """What it is counted as."""
        if self.found.failed is not None:
            return "failed"
        if self.shared:
            return "several"
        return ("none", "one", "several")[min(len(self.found.receipts), 2)]

    def entry(self, classify: Classify, *, chance: float) -> Entry:
        """Return what it asks of the ledger."""
        if self.word == "one":
            return self._told(self.found.receipts[0], classify, chance)
        return Entry(intent_id=self.intent_id, propose=self._untold, chance=chance)

    def _told(self, receipt: Receipt, classify: Classify, chance: float) -> Entry:
        meaning = classify(receipt.evidence)
        identity = event_identity(self.number, receipt.identity)
        told = later_of(
            self.number, receipt.evidence, meaning, source=Source.LOOK_UP, identity=identity
        )
        finding = replace(told, occurred_at=receipt.occurred_at)
        return Entry(
            intent_id=self.intent_id,
            propose=lambda _: [finding],
            floor=meaning.retry_floor,
            attempts_max=meaning.attempts_max,
            chance=chance,
        )

    def _untold(self, standing: Standing) -> Sequence[Finding]:
        """Propose what follows from several candidates, or from none where that is proof.

        Absence proves nothing before the wait is over: the provider may not have got to it yet.
        """
        delivery, now = standing.delivery, standing.locked.now
        open_question = (
            self.found.failed is None
            and delivery.awaits is Awaits.EVIDENCE
            and self.number in standing.unknown_attempts()
        )
        if not open_question:
            return []
        if self.found.receipts:
            return [decisions.ask(self.number, rule="look-up.several", now=now)]
        if self.absence_is_proof and delivery.due_at is not None and delivery.due_at <= now:
            return [absent(self.number)]
        return []


def only_free(
    answers: Sequence[Answered], held: Mapping[str, AbstractSet[tuple[int, int]]]
) -> list[Answered]:
    """Leave out what belongs to another attempt; what several could claim belongs to none of them yet.

    A provider that is asked without a reference finds whatever looks alike: the message of an earlier
    attempt, or of another intent with the same text for the same person. *held* says who holds which
    reference, by the ledger.
    """
    free = [_without_others(answer, held) for answer in answers]
    claims = Counter(reference for answer in free for reference in answer.references)
    return [
        replace(answer, shared=any(claims[reference] > 1 for reference in answer.references))
        for answer in free
    ]


def _without_others(answer: Answered, held: Mapping[str, AbstractSet[tuple[int, int]]]) -> Answered:
    receipts = tuple(
        receipt
        for receipt in answer.found.receipts
        if held.get(receipt.evidence.provider_reference or "", frozenset()) <= {answer.key}
    )
    return replace(answer, found=replace(answer.found, receipts=receipts))


def attempts_to_ask(standing: Standing, looked_at: datetime | None) -> Sequence[int]:
    """Return the numbers of the attempts that are asked about; none where the wait is over.

    An unknown handoff is asked about once more when its wait has ended, before anything is decided.
    """
    delivery, now = standing.delivery, standing.locked.now
    due = delivery.due_at
    if delivery.awaits is not Awaits.EVIDENCE or due is None:
        return ()
    if delivery.status is Status.AMBIGUOUS:
        told = looked_at is not None and looked_at >= due
        return () if due <= now and told else standing.unknown_attempts()
    return () if _ends(delivery, standing.attempts) <= now else standing.accepted_attempts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A row that awaits evidence, or did; ``since`` is when the attempt in question was opened."""

    delivery: Delivery
    attempts: Sequence[Attempt]
    since: datetime


def next_look(waiting: Waiting, policy: Policy, *, now: datetime, chance: float) -> datetime:
    """Return when a row is looked at again: ever more rarely, and once more when its wait ends."""
    assert policy.look_up is not None
    delivery, began, ends = waiting.delivery, waiting.since, waiting.delivery.due_at
    if delivery.status is Status.SUBMITTED and delivery.due_at is not None:
        began, ends = max(began, delivery.due_at), _ends(delivery, waiting.attempts)
    wait = look_after(policy.look_up, since=began, now=now)
    at = spread(policy, wait, now=now, chance=chance)
    return min(at, ends) if ends is not None and ends > now else at


def _ends(delivery: Delivery, attempts: Sequence[Attempt]) -> datetime:
    assert delivery.due_at is not None
    return max([delivery.due_at, *(attempt.window_ends_at for attempt in attempts)])
