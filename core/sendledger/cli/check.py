"""``sendledger check``: read the configuration and print what was understood."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sendledger.bootstrap import Plan, nowhere_to_report, read_plan
from sendledger.cli.console import page, show_table
from sendledger.cli.options import Config, Json, config_path
from sendledger.settings.describe import Described, describe


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(check)


def check(config: Config = None, as_json: Json = False) -> None:  # noqa: FBT002 - a flag of the command
    """Read the settings, the policy and the plugins; print what was understood, secrets hidden."""
    path = config_path(config)
    plan = read_plan(path)
    if as_json:
        print(json.dumps(_document(plan), indent=2))  # noqa: T201
        return
    console = page()
    console.print(
        f"[bold]{escape(str(path))}[/bold]: understood; policy revision [bold]{plan.revision}[/bold]"
    )
    _show(console, "settings", describe(plan.settings, plan.blocks))
    _show(console, "policy", describe(plan.policy))
    if plan.policy.scale != 1:
        console.print(f"Every duration of the policy is divided by {plan.policy.scale:g}.")
    for loaded in plan.host.describe():
        hooks = ", ".join(loaded.hooks)
        console.print(f"plugin {loaded.name} ({loaded.distribution} {loaded.version}): {hooks}")
    for warning in lost_receipts(plan):
        console.print(f"[yellow]warning[/yellow] {escape(warning)}")
    for name, rules in plan.rules.items():
        console.print(f"channel {name}: {len(rules)} classification rules")


def lost_receipts(plan: Plan) -> list[str]:
    """Return a sentence for each channel whose receipts have nowhere to go."""
    return [
        f"channel {name} reads receipts, and nobody tells its provider where to send them: set"
        " http.public_url, and run `sendledger serve`"
        for name in nowhere_to_report(plan)
    ]


def _show(console: Console, title: str, rows: list[Described]) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("setting", "value"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "setting")
    for row in rows:
        mark = " [dim](default)[/dim]" if row.origin == "default" else ""
        table.add_row(escape(row.path), f"{escape(row.value)}{mark}")
    show_table(console, table)


def _document(plan: Plan) -> dict[str, object]:
    return {
        "policy_revision": plan.revision,
        "settings": _rows(describe(plan.settings, plan.blocks)),
        "policy": _rows(describe(plan.policy)),
        "plugins": [
            {"name": row.name, "distribution": row.distribution, "version": row.version}
            for row in plan.host.describe()
        ],
        "warnings": lost_receipts(plan),
        "rules": {name: [rule.id for rule in rules] for name, rules in plan.rules.items()},
    }


def _rows(rows: list[Described]) -> dict[str, dict[str, str]]:
    return {row.path: {"value": row.value, "origin": row.origin} for row in rows}
