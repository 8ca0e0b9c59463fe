"""Which number asks for what: the fictitious ones of North America, and Twilio's own. Pure.

``+1 AAA 555 01NN`` never belongs to anybody, in any area. Here the last two digits choose the outcome, so
that the area is free to say where somebody lives, and ten of them make a family; the table is
:data:`TABLE`. Every other number is delivered to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sendledger_sandbox.twilio.outcomes import Outcome, parse_script

TABLE: Mapping[int, str] = {
    # 00-49 are delivered to
    # 50-59: refused at once
    50: "refuse-21211",
    51: "refuse-21614",
    52: "refuse-21610",
    53: "refuse-21408",
    54: "refuse-21606",
    55: "refuse-21611",
    56: "refuse-21635",
    57: "refuse-21612",
    58: "refuse-20003-once",
    59: "refuse-99999",
    # 60-69: accepted, and then it comes to nothing
    60: "end-undelivered-30003",
    61: "end-undelivered-30005",
    62: "end-undelivered-30006",
    63: "end-undelivered-30007",
    64: "end-undelivered-30008",
    65: "end-undelivered-30034",
    66: "end-failed-30001",
    67: "end-failed-30002",
    68: "end-undelivered-30004",
    69: "end-sent",
    # 70-79: the exchange fails
    70: "rate-limit-1-once",
    71: "rate-limit-1",
    72: "http-500-once",
    73: "http-503-once",
    74: "http-500-accepted",
    75: "drop-request-once",
    76: "lose-answer",
    77: "garble-answer",
    78: "silence",
    79: "stall-1",
    # 80-89: callbacks misbehave
    80: "callbacks-twice",
    81: "callbacks-reversed",
    82: "callbacks-late-2",
    83: "callbacks-none",
    84: "callbacks-early",
    85: "callbacks-forged",
    86: "callbacks-forged-first",
    87: "end-delivered+end-undelivered-30008",
    88: "end-undelivered-30008+end-delivered",
    89: "end-teleported+end-delivered",
    # 90-99: several things at once
    90: "lose-answer+callbacks-none",
    91: "lose-answer+callbacks-early",
    92: "twice",
    93: "lose-answer+callbacks-none+twice",
    94: "lose-answer+callbacks-none+end-undelivered-30006",
    95: "lose-answer-once+end-undelivered-30003",
    96: "callbacks-twice+callbacks-reversed+end-undelivered-30006",
    97: "silence+callbacks-none",
    98: "drop-request",
    99: "http-500-accepted+http-503-look-up-once+callbacks-none",
}
"""The last two digits of a fictitious number, and its outcomes in the script language."""

TWILIOS_OWN: Mapping[str, str] = {
    "+15005550001": "refuse-21211",
    "+15005550002": "refuse-21612",
    "+15005550003": "refuse-21408",
    "+15005550004": "refuse-21610",
    "+15005550009": "refuse-21614",
}
"""Destinations that Twilio documents for its test credentials (docs/iam/test-credentials)."""

TWILIOS_OWN_SENDERS: Mapping[str, int] = {
    "+15005550001": 21212,
    "+15005550007": 21606,
    "+15005550008": 21611,
}
"""Senders that Twilio documents there, and the code each is refused with; +15005550006 is a good one."""

_FICTITIOUS = re.compile(r"\+1[2-9]\d\d55501(\d\d)")
_OF_DIGITS = {digits: parse_script(text) for digits, text in TABLE.items()}
_OF_NUMBER = {number: parse_script(text) for number, text in TWILIOS_OWN.items()}


def outcomes_of(number: str) -> tuple[Outcome, ...]:
    """Return what *number* asks for; nothing when it is to be delivered to."""
    if found := _FICTITIOUS.fullmatch(number):
        return _OF_DIGITS.get(int(found[1]), ())
    return _OF_NUMBER.get(number, ())
