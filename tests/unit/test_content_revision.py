"""The revision of content: the same for the same, different for anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.content import TemplateError, load_content, revision

SPEC = {"subject": False, "text": False, "html": True}
MAPPINGS = st.dictionaries(st.text("ab", max_size=3), st.text("ab", max_size=3), max_size=3)


@given(MAPPINGS, MAPPINGS, MAPPINGS, MAPPINGS)
def test_two_revisions_are_equal_only_for_equal_content(
    parts: dict[str, str], settings: dict[str, str], others: dict[str, str], theirs: dict[str, str]
) -> None:
    same = (parts, settings) == (others, theirs)
    assert (revision(parts, settings) == revision(others, theirs)) is same


def test_order_does_not_matter_and_boundaries_do() -> None:
    assert revision({"a": "1", "b": "2"}, {}) == revision({"b": "2", "a": "1"}, {})
    assert revision({"ab": "c"}, {}) != revision({"a": "bc"}, {})
    assert revision({"a": "b"}, {}) != revision({}, {"a": "b"})


def test_the_encoding_never_changes_by_itself() -> None:
    found = revision({"subject": "Hi {{name}}", "text": "Grüße"}, {"from": "a@sender.test"}).hex()
    assert found == "150efa655880b0557497992d990b6e7dbcd3d60b0e6c5b17a70501c6769ee942"


def test_content_compiles_each_part_as_the_channel_renders_it() -> None:
    content = load_content({"text": "{{a}}", "html": "{{b}}"}, SPEC, settings={"from": "x"})
    assert content.parts["text"].render({"a": "<"}) == "<"
    assert content.parts["html"].render({"b": "<"}) == "&lt;"
    assert content.variables == {"a", "b"}
    assert content.revision_hex == revision({"text": "{{a}}", "html": "{{b}}"}, {"from": "x"}).hex()


def test_unknown_and_missing_parts_are_named() -> None:
    with pytest.raises(TemplateError, match=r"^body: .*it has html, subject, text"):
        load_content({"body": "x"}, SPEC)
    with pytest.raises(TemplateError, match=r"^subject: .*missing"):
        load_content({"text": "x"}, SPEC, required={"subject", "text"})
