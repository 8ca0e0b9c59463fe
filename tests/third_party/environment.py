"""A virtual environment as somebody else's is: Sendledger and two plugins from their wheels, no checkout.

Sendledger's runtime dependencies are not installed anew, which would need a package index, but lent: a folder
of links to those that are installed here, and to nothing else of what is installed here. The links are
made by walking the requirements that the wheel itself declares, so a dependency that the wheel forgets to
declare is missing there too. pytest is lent only to the tests that the plugins bring along.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("carrierpigeon", "strictrules")
SHIPPED = (
    "core",
    "plugins",
    "migrations",
    "config",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    ".gitignore",
)
OURS = {"sendledger", "sendledger-carrierpigeon", "sendledger-strictrules"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The environment in ``folder``, and a folder of ``tools`` that is not part of it."""

    folder: Path
    tools: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def command(self) -> Path:
        """Its ``sendledger``."""
        return self.folder / "bin" / "sendledger"

    def run(
        self,
        *command: Path | str,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run *command* with nothing of our own environment but the search path of the system."""
        return subprocess.run(
            command,
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "COLUMNS": "120", **(env or {})},
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=timeout_s,
        )


def build_environment(folder: Path) -> Environment:
    """Build the three wheels in *folder* and install them into a new environment there."""
    wheels = [
        _build(folder / "sendledger", ROOT, SHIPPED),
        *(_build(folder / name, ROOT / "tests/third_party" / name) for name in PACKAGES),
    ]
    home = folder / "venv"
    _do(sys.executable, "-m", "venv", "--without-pip", home)
    made = Environment(folder=home, tools=folder / "tools")
    _pip(made, "install", "--no-index", "--no-deps", "--no-compile", *wheels)
    [site] = home.glob("lib/python*/site-packages")
    [installed] = distributions(name="sendledger", path=[str(site)])
    _link(folder / "dependencies", _needed_by(installed))
    (site / "dependencies.pth").write_text(f"{folder / 'dependencies'}\n", encoding="utf-8")
    _link(made.tools, [distribution("pytest"), *_needed_by(distribution("pytest"))])
    return made


def _build(work: Path, source: Path, names: Sequence[str] = ()) -> Path:
    """Return the wheel of a copy of *source*, or of only those *names* in it."""
    for path in [source / name for name in names] or source.iterdir():
        target = work / path.name
        if path.is_dir():
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    _do(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out", cwd=work)
    [wheel] = (work / "out").glob("*.whl")
    return wheel


def _pip(environment: Environment, *arguments: Path | str) -> None:
    pip = (sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--quiet")
    _do(*pip, "--python", environment.python, *arguments)


def _do(*command: Path | str, cwd: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _needed_by(first: Distribution) -> Iterator[Distribution]:
    """Yield what *first* requires to run, directly or not, as it is installed here."""
    waiting, seen = [(first, frozenset({""}))], {(first.name, frozenset({""}))}
    while waiting:
        parent, extras = waiting.pop()
        for requirement in map(Requirement, parent.requires or ()):
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in extras):
                continue
            name = canonicalize_name(requirement.name)
            wanted = (name, frozenset({"", *requirement.extras}))
            if wanted not in seen:
                seen.add(wanted)
                waiting.append((distribution(name), wanted[1]))
                yield distribution(name)


def _link(folder: Path, lent: Sequence[Distribution] | Iterator[Distribution]) -> None:
    folder.mkdir()
    for each in lent:
        assert canonicalize_name(each.name) not in OURS, "ours come from wheels"
        tops = {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}
        for top in tops:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(each.locate_file(top))).resolve())
