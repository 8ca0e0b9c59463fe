"""Which check catches which liar, and what is then said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sendledger.plugin.conformance import Reaction
from sendledger.plugin.conformance.writing import HALF_A_CHARACTER, HOSTILE


@dataclass(frozen=True, slots=True)
class Lie:
    """A lie, the check that catches it, and what is then said; ``given`` are the check's parameters."""

    told: str
    check: str
    said: str
    given: dict[str, Any] = field(default_factory=dict)


def at(*reactions: Reaction) -> list[dict[str, Any]]:
    return [{"reaction": reaction} for reaction in reactions]


OTHER_COLOUR = "is plain; write it as async def"
NO_LOOK_UP = "declares what sendledger_look_up is for and lacks it"
QUOTED = "the refusal repeats the text"
NOT_REACHED = "a willing peer was not reached"
MORE_THAN_TEXT = "a value changes more than the text it stands in"
SOMETHING_ELSE = "an answer is not that to its own submission"
MADE_GOOD = "the host had to make good what broke in"

LOADS = "test_the_host_loads_builds_and_seals_it"
REFUSES = "test_what_is_no_destination_is_refused_without_being_quoted"
HARMLESS = "test_a_hostile_value_is_refused_or_stays_a_value"
CLOSES = "test_closing_ends_everything_and_may_be_said_twice"
NOT_AGAIN = "test_a_broken_session_is_not_used_again"
SAYS = "test_it_says_what_was_read_and_how_far_it_had_come"
MEANS = "test_evidence_means_what_the_peer_meant"
DISCREET = "test_nothing_of_a_person_is_said_in_passing"

PROMISES = [
    Lie("a hook of the wrong colour", LOADS, OTHER_COLOUR),
    Lie(
        "absence is proof without a look-up",
        "test_its_capabilities_can_be_true",
        "absence can only be proof where there is a look-up",
    ),
    Lie(
        "a look-up that is not there", "test_look_up_is_there_exactly_if_it_is_offered", NO_LOOK_UP
    ),
    Lie(
        "receipts that nobody declared",
        "test_receipts_are_read_exactly_if_they_are_offered",
        "sendledger_read_callback|receipts that it does not declare",
    ),
    Lie("a sender without a name", "test_it_names_one_sender", "the sender has no name"),
]
DESTINATIONS = [
    Lie(
        "a prefix is added each time",
        "test_a_good_destination_is_normalised_once_and_for_all",
        "a normalised address is normalised differently",
    ),
    Lie(
        "canonical says too little",
        "test_different_destinations_stay_different",
        "two destinations share one canonical spelling",
    ),
    Lie("the refusal quotes the text", REFUSES, QUOTED),
    Lie("anything is a destination", REFUSES, "the channel takes a text that the rig calls bad"),
    Lie(
        "anything is a destination",
        "test_no_control_character_gets_through",
        "an address holds a line break or control character",
    ),
    Lie(
        "the first digits decide",
        "test_an_endless_text_is_refused",
        "the channel takes an endless address",
    ),
]
WRITING = [
    Lie(
        "chance is written in",
        "test_a_message_is_the_same_each_time_it_is_written",
        "the same message is written differently",
    ),
    Lie(
        "the last addressee is remembered",
        "test_a_message_holds_nothing_of_another_addressee",
        "what was written before changes a message",
    ),
    Lie(
        "something is added on the way",
        "test_what_was_written_is_what_arrives",
        "the peer took something else",
    ),
    *(
        Lie("a line break gets into the note", HARMLESS, MORE_THAN_TEXT, {"value": value})
        for value in HOSTILE
        if "\n" in value
    ),
    Lie(
        "a line break gets into the note",
        HARMLESS,
        "refuse it with a ContentFault of your own",
        {"value": HALF_A_CHARACTER},
    ),
    Lie(
        "the fault quotes the value",
        HARMLESS,
        "the refusal repeats the value",
        {"value": HOSTILE[0]},
    ),
]
SESSIONS = [
    Lie(
        "an unreachable peer is an exception",
        "test_an_unreachable_peer_is_a_refused_session",
        f"{MADE_GOOD} sendledger_session",
    ),
    Lie(
        "once refused is refused for good",
        "test_a_peer_that_comes_back_is_found_again",
        NOT_REACHED,
    ),
    Lie(
        "a dead connection is handed to",
        "test_a_connection_lost_while_idle_leaves_nothing_in_doubt",
        "a dead session was handed to",
    ),
    Lie(
        "as many sessions as anybody asks for",
        "test_no_more_sessions_are_open_than_it_says",
        "more sessions are open than the channel says",
    ),
    Lie(
        "who gives up waiting keeps a place",
        "test_waiting_in_vain_takes_no_place",
        "a session that was given back is not lent again",
    ),
    *(
        Lie("a broken connection is kept", NOT_AGAIN, NOT_REACHED, given)
        for given in at(Reaction.CLOSE_EARLY, Reaction.LOSE_ANSWER, Reaction.STALL)
    ),
    Lie(
        "connections are closed at the end",
        "test_dropped_connections_leave_nothing_behind",
        "50 drops left connections or files open",
    ),
    Lie("closing twice is an error", CLOSES, f"{MADE_GOOD} aclose"),
    Lie("a task outlives the channel", CLOSES, "a task outlives aclose"),
]
SUBMISSION = [
    *(
        Lie(told, SAYS, said, {"reaction": reaction})
        for told, reaction, said in (
            (
                "handed over from the first byte",
                Reaction.CLOSE_EARLY,
                "it had not been handed over",
            ),
            ("handed over when answered", Reaction.LOSE_ANSWER, "it had been handed over"),
            ("handed over when answered", Reaction.STALL, "it had been handed over"),
            ("what the peer does is an exception", Reaction.LOSE_ANSWER, MADE_GOOD),
            ("garbage is an answer", Reaction.GARBLE_ANSWER, "nothing was answered"),
            ("the literal is tidied up", Reaction.REFUSE_ADDRESS, "is not what the peer said"),
            ("an exception is left to the loop", Reaction.ACCEPT, "left to the event loop"),
        )
    ),
    Lie(
        "the reference is forgotten",
        "test_the_reference_of_an_acceptance_is_kept",
        "the reference is not what the peer gave",
    ),
    Lie(
        "the first answer answers everything",
        "test_two_submissions_on_one_session_keep_apart",
        SOMETHING_ELSE,
    ),
    Lie(
        "the first answer answers everything",
        "test_submissions_side_by_side_keep_apart",
        SOMETHING_ELSE,
    ),
    Lie(
        "cancelling means not handed over",
        "test_a_cancelled_submission_ends_and_its_session_is_not_used_again",
        "it had been handed over",
    ),
]
MEANING = [
    Lie(
        "every refusal is for good", MEANS, "not what the peer meant", *at(Reaction.REFUSE_FOR_NOW)
    ),
    Lie("every refusal is for good", MEANS, "not whom the peer meant", *at(Reaction.REFUSE_SENDER)),
    Lie(
        "every refusal is for good", MEANS, "not what the peer meant", *at(Reaction.REFUSE_SESSION)
    ),
    Lie(
        "every refusal suppresses",
        "test_nobody_is_suppressed_but_for_their_address",
        "evidence that is not about the address suppresses it",
        *at(Reaction.REFUSE_MESSAGE),
    ),
    Lie(
        "every answer has a rule of its own",
        "test_meaning_depends_on_the_evidence_alone",
        "the same evidence means something else",
    ),
    Lie(
        "every reply is text",
        "test_strange_evidence_is_no_reason_to_raise",
        f"{MADE_GOOD} sendledger_classify",
        {"number": 2},
    ),
]
DISCRETION = [
    Lie(told, DISCREET, said, *at(Reaction.ACCEPT))
    for told, said in (
        ("the destination is logged", "a log line names a person"),
        ("the message is printed", "the output names a person"),
        ("the destination is a fact", "evidence names a person outside its literal"),
    )
]
LIES = [*PROMISES, *DESTINATIONS, *WRITING, *SESSIONS, *SUBMISSION, *MEANING, *DISCRETION]
