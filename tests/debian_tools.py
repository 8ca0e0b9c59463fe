"""Programs that come from Debian packages: found, or the test is skipped; where CI is true it fails."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

UNPACKED = Path(__file__).parents[1] / ".venv/debian"
"""Where ``make test`` puts programs of packages that it does not install."""


def debian_file(pattern: str, *, package: str) -> Path:
    """Return the first file that *pattern* matches, below ``/`` or where packages are unpacked."""
    found = [path for root in (Path("/"), UNPACKED) for path in sorted(root.glob(pattern))]
    return found[0] if found else missing(package)


def debian_program(name: str, *, package: str) -> Path:
    """Return a program from the path or from where packages are unpacked."""
    places = os.pathsep.join([os.defpath, "/usr/sbin", *map(str, UNPACKED.glob("usr/*bin"))])
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), places]))
    if found is None:
        missing(package)
    return Path(found)


def missing(package: str) -> NoReturn:
    """Skip, naming the package; fail where nothing may be left out."""
    told = f"the Debian package {package} is missing: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(told)
    pytest.skip(told)
