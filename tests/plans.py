"""The plans that a statement really ran with, also inside the functions that it called."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

Node = dict[str, Any]


def nodes_of(
    connection: psycopg.Connection, query: bytes, parameters: Mapping[str, Any]
) -> list[Node]:
    """Run *query* without a trace, and return every node of every plan in it. Needs a superuser."""
    told: list[str] = []
    connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    with connection.transaction(force_rollback=True):
        connection.execute("LOAD 'auto_explain'")
        for setting, value in (
            ("client_min_messages", "log"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_nested_statements", "on"),
            ("auto_explain.log_format", "json"),
        ):
            connection.execute("SELECT set_config(%s, %s, true)", [setting, value])
        told.clear()
        connection.execute(query, parameters)
    plans = [message.partition("plan:\n")[2] for message in told if "plan:\n" in message]
    return [node for plan in plans for node in _nodes(json.loads(plan)["Plan"])]


def scans(nodes: list[Node], table: str) -> list[Node]:
    """Return the nodes that read *table* from end to end."""
    return [
        node
        for node in nodes
        if node["Node Type"] == "Seq Scan" and node.get("Relation Name") == table
    ]


def _nodes(plan: Node) -> Iterator[Node]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)
