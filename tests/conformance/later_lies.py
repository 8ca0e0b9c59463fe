"""Which check of receipts, look-ups and files catches which liar, and what is then said."""

from __future__ import annotations

from conformance.lies import MADE_GOOD, Lie
from sendledger.plugin.conformance import Fate, Flaw, Reaction

BELIEVED = "what is no receipt of this attempt is read as one"
NOT_TOLD = "that is not what the provider told"
ANSWERED = "nobody answered, and that is taken for an answer"
A_PERSON = "a log line names a person"
NOT_A_SUBMISSION = "its stage is that of a submission"

COMES = "test_receipts_come_to_the_address_of_the_attempt"
IS_EVIDENCE = "test_a_receipt_is_evidence_of_what_was_told"
ONE_EVENT = "test_an_event_has_one_identity_however_often_it_is_told"
ANY_ORDER = "test_receipts_are_read_in_any_order_and_before_the_answer"
GENUINE = "test_what_is_not_genuine_is_refused"
TOUCHES = "test_reading_a_receipt_touches_nothing"
RECEIPT_DISCREET = "test_nothing_of_a_person_is_said_of_a_receipt"
BY_REFERENCE = "test_a_message_is_found_by_its_reference"
WITHOUT = "test_a_message_is_found_without_a_reference"
SEVERAL = "test_several_candidates_are_all_named"
IN_ORDER = "test_each_attempt_has_its_own_answer_in_order"
ONE_FIND = "test_a_find_has_one_identity_until_it_changes"
NO_ANSWER = "test_a_provider_that_gives_no_answer_says_nothing"
CANCELLED = "test_a_cancelled_look_up_ends_and_leaves_nothing_open"
LOOK_UP_DISCREET = "test_nothing_of_a_person_is_said_of_a_look_up"
ENCLOSED = "test_files_are_enclosed_as_they_were_planned"
NAMES = "test_a_hostile_name_is_refused_or_stays_a_name"

RECEIPTS = [
    Lie(
        "receipts come to a shorter address",
        COMES,
        "another address than that of the envelope",
    ),
    Lie(
        "nothing goes where nobody listens",
        COMES,
        "a willing peer did not take the message once",
    ),
    *(
        Lie(told, IS_EVIDENCE, said, {"fate": fate})
        for told, fate, said in (
            ("the receipt is tidied up", Fate.ARRIVED, "not what the provider posted"),
            ("a receipt is the answer to a submission", Fate.ARRIVED, NOT_A_SUBMISSION),
            ("a receipt has a reference of its own", Fate.LOST, "not that of the submission"),
            ("a receipt is not sure of the handoff", Fate.ARRIVED, "and has said so"),
            ("words that nobody knows are dropped", Fate.UNMAPPED, "is not kept"),
            ("whatever is told is a failure", Fate.UNMAPPED, NOT_TOLD),
            ("whatever is told is a failure", Fate.ARRIVED, NOT_TOLD),
            ("whatever is told is an arrival", Fate.UNDER_WAY, NOT_TOLD),
            ("whatever is told is an arrival", Fate.LOST, NOT_TOLD),
            ("whatever is told suppresses", Fate.UNDER_WAY, "not lost suppresses its destination"),
        )
    ),
    Lie("every receipt is another event", ONE_EVENT, "another one when it is told again"),
    Lie("every receipt is the same event", ONE_EVENT, "different events share an identity"),
    Lie("what is told late is not told", ANY_ORDER, "depends on what was read before it"),
    Lie("only what this process handed over is known", ANY_ORDER, "a genuine receipt is refused"),
    *(
        Lie("anybody is believed", GENUINE, BELIEVED, {"flaw": flaw})
        for flaw in (Flaw.UNSIGNED, Flaw.ANOTHER_KEY, Flaw.ANOTHER_ACCOUNT, Flaw.BROKEN_FORM)
    ),
    Lie(
        "every refusal is about who sent it",
        GENUINE,
        "403 is for who sent it, 400 for what it says",
        {"flaw": Flaw.BROKEN_FORM},
    ),
    Lie("what surrounds a receipt is taken off", "test_an_altered_receipt_is_refused", BELIEVED),
    Lie("anybody is believed", "test_a_receipt_settles_no_other_attempt", BELIEVED),
    *(
        Lie(
            "it is read before it is verified",
            "test_garbage_is_refused",
            "sendledger_read_callback",
            {"number": number},
        )
        for number in (0, 1, 4, 6)
    ),
    Lie("receipts are looked for on the disk", TOUCHES, "asks the system: os.listdir"),
    Lie("the signature is taken off the request", TOUCHES, "changes the request"),
    Lie("receipts are logged", RECEIPT_DISCREET, A_PERSON, {"flaw": None}),
    Lie(
        "the refusal says what was posted",
        RECEIPT_DISCREET,
        "names a person or an attempt",
        {"flaw": Flaw.ANOTHER_KEY},
    ),
]
LOOK_UPS = [
    Lie(
        "what is found is tidied up",
        BY_REFERENCE,
        "the literal is not what the peer said",
        {"fate": Fate.ARRIVED},
    ),
    Lie(
        "what is found is the answer to a submission",
        BY_REFERENCE,
        NOT_A_SUBMISSION,
        {"fate": Fate.ARRIVED},
    ),
    Lie("whatever is told is a failure", BY_REFERENCE, NOT_TOLD, {"fate": Fate.UNDER_WAY}),
    Lie(
        "only what is known is found",
        WITHOUT,
        "what was taken is not found",
    ),
    Lie(
        "the first note is everybody's",
        "test_what_was_not_taken_is_not_found",
        "what is not there is found",
    ),
    Lie(
        "none is a failure",
        "test_what_the_provider_does_not_know_is_not_found",
        "that there is none is an answer",
    ),
    Lie(
        "of several the newest is the one",
        SEVERAL,
        "of several candidates not all are named",
    ),
    *(
        Lie(told, IN_ORDER, "is about another attempt")
        for told in ("answers come as they come", "the first note is everybody's")
    ),
    Lie("every find is another event", ONE_FIND, "another event when it is asked for again"),
    Lie("every find is the same event", ONE_FIND, "different finds share an identity"),
    *(
        Lie("who is away knows of none", NO_ANSWER, ANSWERED, {"reaction": reaction})
        for reaction in (None, Reaction.LOSE_ANSWER, Reaction.GARBLE_ANSWER)
    ),
    Lie(
        "a look-up that fails is an exception",
        NO_ANSWER,
        f"{MADE_GOOD} sendledger_look_up",
        {"reaction": Reaction.LOSE_ANSWER},
    ),
    Lie("who was away is not asked again", NO_ANSWER, "the provider answered", {"reaction": None}),
    Lie("a look-up waits for ever", NO_ANSWER, "does not end", {"reaction": Reaction.STALL}),
    Lie("a cancelled look-up found none", CANCELLED, ANSWERED),
    Lie("look-ups keep their connection", CANCELLED, "a connection outlives aclose"),
    Lie("look-ups are logged", LOOK_UP_DISCREET, A_PERSON, {"reaction": None}),
    Lie(
        "what is found says for whom it is",
        LOOK_UP_DISCREET,
        "what is shown of a find names a person",
        {"reaction": None},
    ),
]
ENCLOSING = [
    Lie("files are sorted", ENCLOSED, "a reader finds other files"),
    Lie("every message is packed in another way", ENCLOSED, "is written differently"),
    Lie(
        "files are left behind on the way",
        "test_a_message_with_files_is_what_arrives",
        "the peer took something else",
    ),
    Lie(
        "the last files are remembered",
        "test_files_of_one_addressee_go_to_no_other",
        "what was written before changes a message",
    ),
    Lie("names are taken as they are", NAMES, "a name changes more than itself", {"number": 0}),
    Lie("names are taken as they are", NAMES, "a ContentFault of your own", {"number": 7}),
    Lie("names may be paths", NAMES, "a name holds a folder", {"number": 3}),
    Lie("the refusal quotes the name", NAMES, "the refusal repeats the name", {"number": 3}),
]
LATER_LIES = [*RECEIPTS, *LOOK_UPS, *ENCLOSING]
