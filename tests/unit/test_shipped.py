"""The files that come with Sendledger are found wherever it was installed from."""

from __future__ import annotations

from pathlib import Path

import pytest

import sendledger
from sendledger.shipped import shipped


def test_the_shipped_configuration_is_found() -> None:
    assert (shipped("config") / "classification" / "smtp.yaml").is_file()


def test_a_kind_that_was_not_shipped_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="recipes"):
        shipped("recipes")  # type: ignore[arg-type]


def test_no_init_file_makes_a_source_root_a_package() -> None:
    """A type checker would find every module twice."""
    root = Path(sendledger.__file__).resolve().parents[1]
    assert not (root / "__init__.py").exists()
