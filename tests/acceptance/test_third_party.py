"""Plugins of somebody else's, installed from wheels: same hooks, same ledger, and no checkout in sight.

The environment holds the wheels of Sendledger, of the channel ``sendledger-carrierpigeon`` and of the
deployment plugin ``sendledger-strictrules``. How its dependencies are lent to it, and why, is told in
``third_party/environment.py``.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from acceptance.rig import ENVIRONMENT, Site, found_site, until, write_private
from sendledger_carrierpigeon.loft import SECRET, Loft, post
from third_party.environment import OURS, ROOT, Environment, build_environment

pytestmark = pytest.mark.xdist_group("third-party")
RINGS = {"s1": "555-0101", "s2": "5550102", "s3": "555 0103", "s4": "5550104"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return build_environment(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    """Return an installation whose only channel is the pigeon's."""
    site = found_site(tmp_path, database, installation_id)
    write_private(tmp_path / "secret", SECRET)
    site.settings["channels"] = {
        "pigeon": {
            "plugin": "carrierpigeon",
            "slots": "1",
            "settings": {
                "host": "127.0.0.1",
                "again_after": "1s",
                "secret": {"$file": "secret"},
            },
        }
    }
    site.batch["channel"] = "pigeon"
    site.batch["recipients"] = {"id": "id", "destination": "email"}
    site.batch["content"] = {"text": "{{name}}: the bus is late"}
    return site


def point_at(loft: Loft, site: Site) -> None:
    site.settings["channels"]["pigeon"]["settings"]["port"] = str(loft.port)
    site.write()


async def told(
    environment: Environment, site: Site, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the environment's own command in the folder of the installation."""
    return await asyncio.to_thread(
        environment.run, environment.command, *arguments, cwd=site.folder
    )


async def sent(environment: Environment, site: Site, people: dict[str, str]) -> str:
    """Plan *people* and work until all is done; return everything that was printed."""
    site.write_recipients(people)
    planned = await told(environment, site, "plan", "batch.yaml", "-r", "recipients.csv")
    assert planned.returncode == 0, planned.stderr
    worked = await told(environment, site, "work", "--drain", "--within", "5s")
    assert worked.returncode == 0, worked.stderr
    return planned.stdout + planned.stderr + worked.stdout + worked.stderr


@asynccontextmanager
async def serving(environment: Environment, site: Site) -> AsyncIterator[None]:
    """Run the environment's ``sendledger serve``, called by providers at its own address, until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    site.settings["http"] = {"listen": listen, "public_url": f"http://{listen}"}
    site.write()
    with (site.folder / "serve.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(environment.command, "serve"),
            cwd=site.folder,
            env=ENVIRONMENT,
            stdout=log,
            stderr=log,
        )
    try:
        yield
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def explained(environment: Environment, site: Site, recipient_id: str) -> dict[str, Any]:
    key = site.row(recipient_id).key
    done = await told(environment, site, "explain", key, "--json")
    assert done.returncode == 0, done.stderr
    story: dict[str, Any] = json.loads(done.stdout)
    return story


def evidence(story: dict[str, Any]) -> list[tuple[int, str, str, str | None]]:
    """Return attempt, outcome, rule and literal of each piece of evidence, in ledger order."""
    return [
        (step["attempt"], step["outcome"], step["rule"], step["literal"])
        for step in story["steps"]
        if step["kind"] == "evidence"
    ]


def test_nothing_in_the_environment_comes_from_the_checkout(
    environment: Environment, tmp_path: Path
) -> None:
    program = (
        "import sys, importlib.metadata as m, sendledger, sendledger_smtp, sendledger_carrierpigeon\n"
        "print(sendledger.__file__, sendledger_smtp.__file__, sendledger_carrierpigeon.__file__)\n"
        "print(*sorted(d.name for d in m.distributions()))\n"
        "print(*sys.path, sep=chr(10))"
    )
    done = environment.run(environment.python, "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files, names, *paths = done.stdout.splitlines()
    assert all(file.startswith(f"{environment.folder}/") for file in files.split())
    assert set(names.split()) >= OURS
    assert not {"pytest", "hatchling", "ruff", "mypy", "pip"} & set(names.split())
    assert not [path for path in paths if path.startswith(str(ROOT))]


async def test_a_channel_from_a_wheel_delivers_retries_and_explains(
    environment: Environment, site: Site
) -> None:
    """Accepted, refused for now and then accepted, refused for good, and an answer that got lost."""
    site.policy["look_up"] = {"first_after": "4h"}
    async with Loft() as loft:
        point_at(loft, site)
        loft.play("accept", "451", "510", "lose", "accept")
        printed = await sent(environment, site, RINGS)

        assert {row.recipient_id: (row.status, row.attempts) for row in site.rows()} == {
            "s1": ("submitted", 1),
            "s2": ("submitted", 2),
            "s3": ("failed", 1),
            "s4": ("ambiguous", 1),
        }
        [first, lost, again] = loft.taken
        assert (first.ring, lost.ring, again.ring) == ("5550101", "5550104", "5550102")
        assert first.line == b"NOTE Child s1: the bus is late\n"
        assert evidence(await explained(environment, site, "s2")) == [
            (1, "transient", "pigeon.not-now", "451 not [hidden]\n"),
            (2, "accepted", "default.2yz", f"201 {again.reference}\n"),
        ]
        assert evidence(await explained(environment, site, "s3")) == [
            (1, "permanent", "pigeon.no-such-ring", "510 not [hidden]\n")
        ]
        story = await explained(environment, site, "s4")
        assert (story["status"], story["awaits"]) == ("ambiguous", "evidence")
        assert site.select("SELECT rule FROM sendledger.suppression") == [("pigeon.no-such-ring",)]
        assert not any(ring.replace("-", "").replace(" ", "") in printed for ring in RINGS.values())


async def test_a_channel_from_a_wheel_is_called_back_and_asks(
    environment: Environment, site: Site
) -> None:
    """A receipt delivers, also where the answer was lost; a forged one does not; silence is asked about."""
    site.write_recipients({one: RINGS[one] for one in ("s1", "s2", "s3")})
    async with Loft() as loft:
        point_at(loft, site)
        loft.play("accept", "lose", "lose", "accept")
        planned = await told(environment, site, "plan", "batch.yaml", "-r", "recipients.csv")
        assert planned.returncode == 0, planned.stderr

        async with serving(environment, site):
            await until(lambda: len(loft.taken) == 3)
            answered, lost, silent = loft.taken
            assert await post(loft.post_of(answered, "hawk", secret="what hawks know")) == 403
            assert [await loft.tell(answered, word) for word in ("flying", "home", "home")] == [
                204,
                204,
                204,
            ]
            assert await loft.tell(lost, "home") == 204
            loft.settle(silent, "home")
            await until(lambda: {row.status for row in site.rows()} == {"delivered"})

        assert {row.attempts for row in site.rows()} == {1}
        assert [rule for _, _, rule, _ in evidence(await explained(environment, site, "s1"))] == [
            "default.2yz",
            "pigeon.flying",
            "pigeon.home",
        ]
        *_, asked = evidence(await explained(environment, site, "s3"))
        assert asked == (1, "delivered", "pigeon.home", f"202 {silent.reference} home\n")
        assert site.count("inbox") == 0
    said = (site.folder / "serve.log").read_text(encoding="utf-8")
    assert not any(secret in said for note in loft.taken for secret in (note.ring, note.tag))


async def test_a_deployment_plugin_has_the_first_word_about_what_evidence_means(
    environment: Environment, site: Site
) -> None:
    """What the channel calls *never* is *later* here: the recipient is asked again, and nobody suppressed."""
    site.settings["plugins"] = ["policy", "strictrules"]
    async with Loft() as loft:
        point_at(loft, site)
        loft.play("510", "510", "accept")
        await sent(environment, site, {"s1": RINGS["s1"]})

        assert evidence(await explained(environment, site, "s1")) == [
            (1, "transient", "strictrules.ring-forgotten", "510 not [hidden]\n"),
            (2, "transient", "strictrules.ring-forgotten", "510 not [hidden]\n"),
            (3, "accepted", "default.2yz", f"201 {loft.taken[0].reference}\n"),
        ]
        assert site.count("suppression") == 0


async def test_check_names_the_plugins_and_where_they_came_from(
    environment: Environment, site: Site
) -> None:
    site.settings["channels"]["pigeon"]["settings"]["port"] = "1861"
    site.settings["plugins"] = ["strictrules"]
    site.write()
    done = await told(environment, site, "check")
    assert done.returncode == 0, done.stderr
    assert "sendledger-carrierpigeon" in done.stdout
    assert "sendledger-strictrules" in done.stdout


@pytest.mark.parametrize(("package", "tests_min"), [("carrierpigeon", 130), ("strictrules", 2)])
def test_the_tests_that_a_plugin_brings_along_pass_where_it_is_installed(
    environment: Environment, package: str, tests_min: int, tmp_path: Path
) -> None:
    """With pytest and no plugin of pytest's, which is all the conformance kit needs."""
    shutil.copytree(ROOT / "tests/third_party" / package / "tests", tmp_path / "tests")
    done = environment.run(
        environment.python,
        *("-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"),
        cwd=tmp_path,
        env={"PYTHONPATH": str(environment.tools), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [passed] = re.findall(r"([0-9]+) passed", done.stdout)
    assert int(passed) >= tests_min


def test_without_pytest_the_kit_says_what_to_install(
    environment: Environment, tmp_path: Path
) -> None:
    program = "import sendledger.plugin.conformance"
    done = environment.run(environment.python, "-c", program, cwd=tmp_path)
    assert done.returncode == 1
    assert (
        "pytest is not installed; install pytest beside your channel"
        in done.stderr.splitlines()[-1]
    )
