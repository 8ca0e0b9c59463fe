"""Files come from below the roots and from nowhere else, whatever a column says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import stores
from sendledger.attachments import PlaceRefused, SchemeRefused, StoreAway
from sendledger.attachments.places import Places
from sendledger.settings.attachments import AttachmentSettings


def settings(folder: Path, **given: Any) -> AttachmentSettings:
    return AttachmentSettings.model_validate(given, context={"folder": folder})


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "s1.pdf").write_bytes(b"one")
    (tmp_path / "secret").write_bytes(b"secret")
    return folder


def test_a_root_is_a_folder_beside_the_settings_or_the_beginning_of_a_url(tmp_path: Path) -> None:
    found = settings(tmp_path, roots=["reports", "/srv/reports/", "s3://bucket/spring"]).roots
    assert found == (f"file://{tmp_path}/reports", "file:///srv/reports", "s3://bucket/spring")


@pytest.mark.parametrize(
    ("root", "sentence"),
    [
        ("https://files.example/reports", "not taken from the web"),
        ("http://127.0.0.1/", "not taken from the web"),
        ("sftp://user:pass@store.example/reports", "credentials are not written here"),
        ("file://host/reports", "three slashes"),
        (" ", "expected a folder"),
    ],
)
def test_a_root_that_leads_anywhere_is_refused(tmp_path: Path, root: str, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        settings(tmp_path, roots=[root])


@pytest.mark.parametrize(
    "way",
    [
        "../secret",
        "x/../../secret",
        "..\\secret",
        "./s1.pdf",
        "a\nb",
        "::s1.pdf",
        "..",
        "../reports2/x",
    ],
)
def test_no_value_leads_out_of_a_root(reports: Path, way: str) -> None:
    places = Places([f"file://{reports}"])
    with pytest.raises(PlaceRefused) as refused:
        places.check(f"file://{reports}/{way}")
    assert "secret" not in str(refused.value)


def test_a_neighbour_that_begins_alike_is_outside(reports: Path) -> None:
    places = Places([f"file://{reports}", "s3://bucket/spring"])
    for url in (f"file://{reports}2/s1.pdf", "s3://bucket/spring-drafts/s1.pdf", "s3://bucket2/x"):
        with pytest.raises(PlaceRefused, match="outside of the configured roots"):
            places.check(url)


@pytest.mark.parametrize(
    "url", ["ftp://x/y", "/srv/reports/s1.pdf", "s1.pdf", "", "zip://x::file:///y"]
)
def test_a_scheme_that_no_root_has_is_refused(reports: Path, url: str) -> None:
    with pytest.raises(SchemeRefused, match="the roots have file"):
        Places([f"file://{reports}"]).check(url)


def test_a_link_out_of_the_root_is_refused_and_one_within_is_followed(reports: Path) -> None:
    places = Places([f"file://{reports}"])
    (reports / "out.pdf").symlink_to(reports.parent / "secret")
    (reports / "in.pdf").symlink_to(reports / "s1.pdf")
    with pytest.raises(PlaceRefused, match="a link leads out"):
        places.locate(f"file://{reports}/out.pdf")
    file_system, path = places.locate(f"file://{reports}/in.pdf")
    assert file_system.cat(path) == b"one"


def test_a_root_that_is_itself_a_link_holds_its_files(reports: Path) -> None:
    link = reports.parent / "current"
    link.symlink_to(reports)
    file_system, path = Places([f"file://{link}"]).locate(f"file://{link}/s1.pdf")
    assert file_system.cat(path) == b"one"


def test_an_empty_or_missing_root_is_a_store_that_is_away(reports: Path) -> None:
    places = Places([f"file://{reports}"])
    places.refuse_lost(f"file://{reports}/s2.pdf")
    (reports / "s1.pdf").unlink()
    with pytest.raises(StoreAway, match="root-empty"):
        places.refuse_lost(f"file://{reports}/s2.pdf")
    reports.rmdir()
    with pytest.raises(StoreAway, match="root-empty"):
        places.refuse_lost(f"file://{reports}/s2.pdf")


def test_a_store_whose_package_is_missing_is_told_before_anything_is_planned() -> None:
    Places([stores.ROOT]).refuse_unusable()
    with pytest.raises(PlaceRefused, match="nosuch:// of attachments"):
        Places(["nosuch://bucket"]).refuse_unusable()
    with pytest.raises(PlaceRefused, match="no place is configured"):
        Places([]).refuse_unusable()


@pytest.mark.parametrize(
    ("written", "size"), [("1B", 1), ("512kB", 512_000), ("10MB", 10_000_000), ("2GB", 2 * 10**9)]
)
def test_a_size_is_written_with_its_unit(tmp_path: Path, written: str, size: int) -> None:
    found = settings(tmp_path, max_bytes=written)
    assert found.max_bytes == size
    assert found.model_dump()["max_bytes"] == written


@pytest.mark.parametrize(
    "written", ["10", "0MB", "1.5MB", "10mb", "10 MB", "-1MB", "", "9999999999B"]
)
def test_a_size_without_a_unit_or_without_sense_is_refused(tmp_path: Path, written: str) -> None:
    with pytest.raises(ValidationError, match="expected a size such as"):
        settings(tmp_path, max_bytes=written)
