"""The URL that providers call: taken letter by letter, for signatures are made over it."""

from __future__ import annotations

import pytest

from sendledger.settings.address import public_url


@pytest.mark.parametrize(
    "text",
    [
        "https://hooks.school.example",
        "https://hooks.school.example:8443",
        "https://school.example/notify/in",
        "http://localhost:8080",
        "http://127.0.0.1:8080",
        "http://[::1]:8080",
    ],
)
def test_a_plain_url_is_taken_as_it_is_written_but_for_a_slash_at_its_end(text: str) -> None:
    assert public_url(text) == text
    assert public_url(f"{text}/") == text


@pytest.mark.parametrize(
    "text",
    [
        "hooks.school.example",
        "https://",
        "https:///path",
        "https://user:pw@school.example",
        "https://school.example/a?b=c",
        "https://school.example/a#b",
        "https://school.example/a%20b",
        "https://school.example//a",
        "https://school.example:port",
        "https://sch ool.example",
        "https://[::1",
        "ftp://school.example",
        "http://school.example",
        "http://localhost.school.example",
        "HTTPS://school.example",
        "https://school.example\n",
    ],
)
def test_anything_else_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected ") as refused:
        public_url(text)
    assert "school" not in str(refused.value)
