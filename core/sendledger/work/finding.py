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
from sendledger.ledger.rows import Attempt, Delivery, Observation
from sendledger.ledger.schedule import look_after, spread
from sendledger.ledger.words import Awaits, Source, Status
from sendledger.plugin.receipts import Found, Receipt
from sendledger.store.looking import Key

Classify = Callable[[Evidence], Classification]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a look-up brought for one attempt of an intent.

    It was asked about by the reference ``known``, if any, when its row stood at ``seq``.
    ``absence_is_proof`` is what the channel declares of an attempt that its provider does not know;
    ``shared`` says that another attempt could lay claim to the very message that was found, ``taken`` that
    what the attempt is known by turned out to be another's.
    """

    intent_id: int
    number: int
    seq: int
    found: Found
    known: str | None = None
    absence_is_proof: bool = False
    shared: bool = False
    taken: bool = False

    @property
    def key(self) -> Key:
        """Intent and number of the attempt."""
        return self.intent_id, self.number

    @property
    def references(self) -> frozenset[str]:
        """The provider references that it brought."""
        found = (receipt.evidence.provider_reference for receipt in self.found.receipts)
        return frozenset(reference for reference in found if reference is not None)

    @property
    def guessed(self) -> bool:
        """Whether what it brought was recognised by its looks, not by a reference of the attempt."""
        if self.known is None:
            return bool(self.found.receipts)
        return bool(self.references - {self.known})

    @property
    def word(self) -> str:
        """What it is counted as."""
        if self.found.failed is not None:
            return "failed"
        count = len(self.found.receipts)
        return "several" if count and self.shared else ("none", "one", "several")[min(count, 2)]

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
            propose=lambda standing: [] if self._outdated(standing) else [finding],
            floor=meaning.retry_floor,
            attempts_max=meaning.attempts_max,
            chance=chance,
        )

    def _outdated(self, standing: Standing) -> bool:
        """Whether the attempt was told of since it was asked about: that outweighs what looks like it."""
        return self.guessed and any(
            isinstance(row, Observation) and row.attempt == self.number and row.seq > self.seq
            for row in standing.rows
        )

    def _untold(self, standing: Standing) -> Sequence[Finding]:
        """Propose what follows from several candidates, or from none where that is proof.

        Absence proves nothing before the wait is over: the provider may not have got to it yet. Who was
        believed accepted for another's message is put to a person, too.
        """
        delivery, now = standing.delivery, standing.locked.now
        if self.taken and self.number in standing.accepted_attempts():
            return [decisions.ask(self.number, rule="look-up.taken", now=now)]
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


def contested(answers: Sequence[Answered], rivalled: AbstractSet[Key]) -> list[Answered]:
    """Mark the guesses that another attempt could lay claim to: they belong to none of them yet.

    *rivalled* are the attempts that could be taken for others whose fate is open too.
    """
    claims = Counter(
        reference for answer in answers if answer.guessed for reference in answer.references
    )
    return [
        replace(
            answer, shared=answer.guessed and (answer.key in rivalled or _claimed(answer, claims))
        )
        for answer in answers
    ]


def _claimed(answer: Answered, claims: Mapping[str, int]) -> bool:
    return any(claims[reference] > 1 for reference in answer.references)


def only_free(
    answers: Sequence[Answered], owners: Mapping[str, AbstractSet[Key]]
) -> list[Answered]:
    """Leave out what belongs to another attempt; *owners* says whose a reference is, by the ledger.

    A provider that is asked without a reference finds whatever looks alike: the message of an earlier
    attempt, or of another intent with the same text for the same person.
    """
    return [_without_others(answer, owners) for answer in answers]


def _without_others(answer: Answered, owners: Mapping[str, AbstractSet[Key]]) -> Answered:
    receipts = tuple(
        receipt
        for receipt in answer.found.receipts
        if answer.key in owners.get(receipt.evidence.provider_reference or "", {answer.key})
    )
    taken = answer.key not in owners.get(answer.known or "", {answer.key})
    return replace(answer, taken=taken, found=replace(answer.found, receipts=receipts))


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
    """A row that awaits evidence, or did; ``since`` is when the attempt in question was opened.

    ``failed`` says that its provider was asked just now and did not answer.
    """

    delivery: Delivery
    attempts: Sequence[Attempt]
    since: datetime
    failed: bool = False


def next_look(waiting: Waiting, policy: Policy, *, now: datetime, chance: float) -> datetime:
    """Return when a row is looked at again: ever more rarely, and once more when its wait ends.

    A provider that did not answer is asked again as an outage is probed: it says nothing of the row.
    """
    assert policy.look_up is not None
    delivery, began, ends = waiting.delivery, waiting.since, waiting.delivery.due_at
    if delivery.status is Status.SUBMITTED and delivery.due_at is not None:
        began, ends = max(began, delivery.due_at), _ends(delivery, waiting.attempts)
    wait = look_after(policy.look_up, since=began, now=now)
    if waiting.failed:
        wait = min(wait, max(policy.look_up.first, policy.probe_max))
    at = spread(policy, wait, now=now, chance=chance)
    return min(at, ends) if ends is not None and ends > now else at


def _ends(delivery: Delivery, attempts: Sequence[Attempt]) -> datetime:
    assert delivery.due_at is not None
    return max([delivery.due_at, *(attempt.window_ends_at for attempt in attempts)])
