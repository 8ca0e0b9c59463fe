"""The house: what is written around the code is true of it, and what is shipped is what was meant."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sendledger.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 350
FUNCTION_LINES_MAX = 50
# Written so that this file does not name what it forbids.
ELSEWHERE = re.compile(
    r"pythonhoste[d]|pypi[.]or[g]|registry[.]npmj[s]|deb[.]debia[n]"
    r"|(?<![\w.*}-])/(?:wor[k]|far[m]|roo[t]|hom[e]|tm[p]|User[s])/[a-z]"
)
CODE = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
PINNED = re.compile(
    r"^([A-Za-z0-9._-]+)==([^\s;]+)(?: ; .*)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)


def tracked(*patterns: str) -> list[Path]:
    """Return the files git knows, by glob."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
SOURCES = [p for p in tracked("*.py") if "tests" not in p.relative_to(ROOT).parts]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- the tree ------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["core", "plugins", "migrations"])
def test_no_source_root_is_a_package(folder: str) -> None:
    """A type checker would find every module twice."""
    assert (ROOT / folder).is_dir()
    assert not (ROOT / folder / "__init__.py").exists()


@pytest.mark.parametrize("folder", ["config", "grafana", "migrations"])
def test_no_python_lies_where_the_wheel_maps_a_folder(folder: str) -> None:
    """The build backend refuses an editable installation with one there."""
    assert not list((ROOT / folder).glob("*.py"))


def test_no_file_outside_the_tests_is_too_long() -> None:
    lengths = {name_of(p): len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES}
    assert lengths
    assert {name: n for name, n in lengths.items() if n > LINES_MAX} == {}


def test_no_function_outside_the_tests_is_too_long() -> None:
    lengths = dict(function_lengths())
    assert lengths
    assert {where: n for where, n in lengths.items() if n > FUNCTION_LINES_MAX} == {}


def function_lengths() -> Iterator[tuple[str, int]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                yield f"{name_of(path)}:{node.lineno} {node.name}", length


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = [
        f"{name_of(path)}:{number}"
        for path in tracked()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert found == []


# --- what is shipped -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names in a wheel built from a checkout that also holds somebody's own settings."""
    checkout = tmp_path_factory.mktemp("checkout")
    for path in tracked(
        "config",
        "core",
        "grafana",
        "plugins",
        "migrations",
        "*.toml",
        "*.md",
        "LICENSE",
        ".gitignore",
    ):
        target = checkout / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    (checkout / "config" / "sendledger.yaml").write_text("database: embedded\n", encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"],
        cwd=checkout,
        check=True,
        capture_output=True,
    )
    [built] = (checkout / "out").glob("sendledger-*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_every_configuration_and_alert_file_is_in_the_wheel(wheel: set[str]) -> None:
    shipped = {f"sendledger/_shipped/{name_of(path)}" for path in tracked("config", "grafana")}
    assert "sendledger/_shipped/config/example.yaml" in shipped
    assert "sendledger/_shipped/grafana/alerts/sendledger.yaml" in shipped
    assert shipped <= wheel


def test_every_source_file_is_in_the_wheel(wheel: set[str]) -> None:
    roots = ("core", "plugins", "migrations")
    shipped = {path.relative_to(ROOT / root).as_posix() for root in roots for path in tracked(root)}
    assert {"sendledger/store/sql/claim_deliveries.sql", "sendledger/py.typed"} <= shipped
    assert shipped <= wheel


def test_nobodys_own_settings_are_in_the_wheel(wheel: set[str]) -> None:
    assert not [name for name in wheel if name.endswith("/config/sendledger.yaml")]


def test_nothing_else_is_in_the_wheel(wheel: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel if ".dist-info/" not in name}
    assert tops == {
        "sendledger",
        "sendledger_migrations",
        "sendledger_policy",
        "sendledger_sandbox",
        "sendledger_smtp",
        "sendledger_twilio",
    }


# --- the lock ------------------------------------------------------------------------------------


def test_the_lock_holds_every_dependency_at_a_version_that_is_allowed() -> None:
    pinned = {canonicalize_name(name): version for name, version, _ in pins()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *map(Requirement, project["project"]["dependencies"]),
        *map(Requirement, project["project"]["optional-dependencies"]["dev"]),
        *map(Requirement, project["build-system"]["requires"]),
        Requirement("editables"),
    ]
    wrong = [
        str(requirement)
        for requirement in wanted
        if pinned.get(canonicalize_name(requirement.name), "") not in requirement.specifier
    ]
    assert wrong == [], "run: make lock"


def test_every_package_in_the_lock_has_a_version_and_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    packages = [line for line in lock.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(packages) == len(list(pins()))


def pins() -> Iterator[tuple[str, str, str]]:
    yield from PINNED.findall((ROOT / "requirements.lock").read_text(encoding="utf-8"))


# --- what is written -----------------------------------------------------------------------------


def code_in(page: Path) -> list[str]:
    """Return the lines of every code block and code span, comments left out."""
    found = CODE.findall(page.read_text(encoding="utf-8"))
    lines = [line for block, span in found for line in (block or span).splitlines()]
    return [line.partition("  #")[0].strip() for line in lines]


COMMANDS = [
    (name_of(page), line)
    for page in PAGES
    for line in code_in(page)
    if re.match(r"sendledger [a-z]", line)
]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_every_command_that_is_written_exists_with_its_options(page: str, line: str) -> None:
    command: Any = typer.main.get_command(app)
    words = line.split()[1:]
    while hasattr(command, "commands"):
        if not words and command.invoke_without_command:
            break
        word = words.pop(0) if words else "nothing"
        assert word in command.commands, f"{page}: {line}"
        command = command.commands[word]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known, f"{page}: {line}"


def test_the_readme_shows_every_command() -> None:
    shown = {line.split()[1] for page, line in COMMANDS if page == "README.md"}
    command: Any = typer.main.get_command(app)
    assert shown == set(command.commands)


def test_every_make_target_that_is_written_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    lines = [line for page in PAGES for line in code_in(page) if line.startswith("make ")]
    named = {word for line in lines for word in line.split()[1:2]}
    assert {"demo", "test"} <= named <= targets


def test_every_link_between_pages_leads_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in LINK.findall(page.read_text("utf-8"))]
    assert links
    broken = [
        f"{name_of(page)}: {link}" for page, link in links if not (page.parent / link).exists()
    ]
    assert broken == []


@pytest.mark.parametrize(("page", "lines_max"), [("README.md", 200), ("CONTRIBUTING.md", 120)])
def test_a_page_stays_short_enough_to_be_read(page: str, lines_max: int) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= lines_max


def test_the_decisions_are_numbered_without_gaps() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Decisions")[2]
    numbers = [int(number) for number in re.findall(r"^([0-9]+)\. \*\*", text, re.MULTILINE)]
    assert numbers
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_submission_is_checked_by_the_command_a_developer_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")
