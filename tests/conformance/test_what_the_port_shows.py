"""What a plugin is given can be logged by mistake and still names nobody."""

from __future__ import annotations

import pytest

from sendledger.plugin import Addressee, Attachment, CallbackRequest, Destination, Envelope
from sendledger.plugin.conformance import Callback, Taken

URL = "https://hooks.school.example/callbacks/desk/pat@home.test"
WHOM, WHAT = "pat@home.test", "the secret remark"
GIVEN = [
    Destination(address=WHOM, canonical=WHOM, domain="home.test"),
    Addressee(
        intent_key="1f" * 16,
        attempt_number=1,
        token="a" * 44,
        destination=WHOM,
        variables={"remark": WHAT},
    ),
    Envelope(
        intent_key="1f" * 16,
        attempt_number=1,
        token="a" * 44,
        destination=WHOM,
        message=WHAT.encode(),
    ),
    Attachment(name=WHAT, media_type="text/plain", content=WHAT.encode()),
    CallbackRequest(token=WHOM, url=URL, headers={"to": WHOM}, body=WHAT.encode()),
    Taken(connection=1, destinations=(WHOM,), message=WHAT.encode()),
    Callback(url=URL, headers={"to": WHOM}, body=WHAT.encode()),
]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: type(given).__name__)
def test_its_representation_names_nobody(given: object) -> None:
    shown = f"{given!r} {given!s}"
    assert WHOM not in shown
    assert WHAT not in shown
