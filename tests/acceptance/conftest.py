"""An installation of each test's own."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from acceptance.rig import Site, found_site


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    """Return an installation with a database and keys, and nothing planned."""
    return found_site(tmp_path, database, installation_id)
