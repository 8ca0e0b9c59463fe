"""The alerts: every rule is one Prometheus takes, fires when it must, and names the intent that is late."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from acceptance.rig import Site, people, relay_of, until
from sendledger.metrics.exporter import Exporter
from sendledger.metrics.families import age_families, counted_families, watched_families
from sendledger.metrics.labels import Closed
from sendledger.metrics.meters import Meters
from sendledger.metrics.readings import Counted, Watched
from sendledger.shipped import shipped
from sendledger.store.watching import Backlog

ROOT = Path(__file__).resolve().parents[2]
RULES = Path(str(shipped("grafana"))) / "alerts" / "sendledger.yaml"
CASES = Path(__file__).parent / "alert_cases.yaml"
SERVED = re.compile(rb"metrics at http://(127\.0\.0\.1:\d+)/metrics")


def program(name: str) -> str:
    """Return where a program of Prometheus is: unpacked by make, or installed. Skips without one."""
    places = os.pathsep.join([f"{sys.prefix}/debian/usr/bin", os.environ["PATH"]])
    found = shutil.which(name, path=places)
    if found is None:
        pytest.skip(f"{name} is missing: `make debian-tools` fetches it on Debian")
    return found


def promtool(*arguments: str) -> str:
    done = subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


# --- the rules as they are written ---------------------------------------------------------------


def test_prometheus_takes_the_rules() -> None:
    assert f"{len(alerts())} rules found" in promtool(
        "check", "rules", "--lint=all", "--lint-fatal", str(RULES)
    )


def test_every_alert_fires_when_it_must_and_not_otherwise() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(CASES))
    tested = {
        case["alertname"]
        for test in yaml.safe_load(CASES.read_text("utf-8"))["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert tested == {rule["alert"] for rule in alerts()}


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_every_alert_has_a_severity_a_text_and_a_place_in_the_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    assert anchor in {heading.lower() for heading in headings}


def test_every_metric_that_a_rule_or_a_page_names_is_exported() -> None:
    channels = Closed(["email"])
    nothing = Backlog(inbox=None, xmin_transactions=None, xmin_held=None)
    seen = Watched(
        overdue=[], paused=frozenset(), backing_off=frozenset(), tasks={}, backlog=nothing
    )
    families = [
        *Meters(["email"]).registry.collect(),
        *watched_families(seen, channels),
        *counted_families(Counted(deliveries=[]), channels),
        *age_families(watched_s=0, counted_s=0),
    ]
    suffixes = {"counter": "_total", "info": "_info"}
    exported = {f.name + suffixes.get(f.type, "") for f in families if "sendledger" in f.name}
    pages = {
        name: (ROOT / name).read_text("utf-8") for name in ("docs/metrics.md", "docs/runbook.md")
    }
    in_pages = {word for text in pages.values() for word in re.findall(r"\bsendledger_\w+", text)}
    in_rules = set(re.findall(r"\bsendledger_\w+", RULES.read_text("utf-8")))
    assert in_rules | in_pages <= exported
    assert set(re.findall(r"\bsendledger_\w+", pages["docs/metrics.md"])) == exported


def test_the_metrics_keep_the_conventions_of_prometheus() -> None:
    from prometheus_client import generate_latest  # noqa: PLC0415

    done = subprocess.run(
        [program("promtool"), "check", "metrics", "--extended"],
        input=generate_latest(Meters(["email"]).registry),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert Exporter.collect.__doc__


# --- a real one ----------------------------------------------------------------------------------


@asynccontextmanager
async def prometheus(folder: Path, target: str) -> AsyncIterator[str]:
    """Lend a Prometheus that scrapes *target* every second and judges by the shipped rules; gives its URL.

    Only the minute that a rule waits is shortened.
    """
    rules = RULES.read_text("utf-8")
    assert "for: 1m" in rules
    (folder / "rules.yaml").write_text(rules.replace("for: 1m", "for: 1s"), encoding="utf-8")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "mail", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program("prometheus"),
        f"--config.file={folder}/prometheus.yaml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def firing(url: str, name: str) -> list[dict[str, Any]]:
    """Return the alerts of this name that Prometheus holds to be firing; none while it starts."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/alerts", timeout=10) as answer:
            found = json.load(answer)["data"]["alerts"]
    except (urllib.error.URLError, ConnectionError):
        return []
    return [
        alert
        for alert in found
        if alert["state"] == "firing" and alert["labels"]["alertname"] == name
    ]


async def served(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    while line := await asyncio.wait_for(process.stderr.readline(), 30):
        if found := SERVED.search(line):
            return found[1].decode()
    pytest.fail("the worker ended without serving metrics")


async def test_a_paused_channel_fires_the_alert_that_names_the_intent_until_it_is_resumed(
    site: Site, tmp_path: Path
) -> None:
    """A real worker, a real Prometheus, the shipped rules."""
    program("prometheus")
    site.policy["grace"] = "0s"
    async with relay_of(site):
        await site.planned(people(1))
        assert (await site.run("pause", "channel:email")).code == 0
        async with site.process("work", "--metrics", "127.0.0.1:0") as worker:
            target = await served(worker)
            async with prometheus(tmp_path, target) as url:
                await until(lambda: firing(url, "SendledgerOverdue"), within_s=60)
                [alert] = firing(url, "SendledgerOverdue")
                labels = {"channel": "email", "awaits": "dispatch", "severity": "critical"}
                assert labels.items() <= alert["labels"].items()
                assert f"explain {site.row('s1').key}" in alert["annotations"]["description"]
                assert "home.test" not in json.dumps(alert)

                assert (await site.run("resume", "channel:email")).code == 0
                await until(lambda: not firing(url, "SendledgerOverdue"), within_s=60)
                assert site.row("s1").status == "submitted"
                assert firing(url, "SendledgerUnwatched") == []
