"""A receipt for an attempt that the ledger has forgotten; whoever sets it aside is killed at each statement."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

import aiohttp
import pytest
from twilio.request_validator import RequestValidator

from acceptance.rig import Site, until
from acceptance.sms_rig import SmsScene, sms_scene_of
from acceptance.statement_proxy import Side, StatementProxy, Watch
from sendledger.keys import KeyRing
from sendledger.ledger.tokens import mint
from sendledger_sandbox.twilio import ACCOUNT_SID, AUTH_TOKEN
from stand_in_kit import number

pytestmark = pytest.mark.crash

Told = Callable[[str, object], None]

STATEMENTS = ("quarantine_receipts", "begin_pause", "open_tasks", "COMMIT drop_receipts")
SETTING_ASIDE = "SELECT reason FROM sendledger.quarantine"


def strike(statement: str, side: Side, pid: int) -> Watch:
    """Return a watch that kills *pid* at *side* of the first *statement*, and cuts."""
    left = [pid]

    def watch(found: str, at: Side) -> bool:
        due = bool(left) and (found, at) == (statement, side)
        if due:
            os.kill(left.pop(), signal.SIGKILL)
        return due

    return watch


async def report(scene: SmsScene) -> None:
    """Tell of the first attempt of the only intent, which never was, as the provider would.

    Who is killed while folding it may have had no time to answer: it was committed before.
    """
    site = scene.site
    keys = dict(KeyRing.load_or_create(site.folder / "state/keys.json").token_keys)
    token = mint(keys, min(keys), intent_id=site.rows()[0].intent_id, number=1)
    url = f"{site.settings['http']['public_url']}/callbacks/sms/{token}"
    said = {"AccountSid": ACCOUNT_SID, "MessageSid": f"SM{7:032x}", "MessageStatus": "sent"}
    headers = {"X-Twilio-Signature": RequestValidator(AUTH_TOKEN).compute_signature(url, said)}
    async with aiohttp.ClientSession() as client:
        with suppress(aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            async with client.post(url, data=said, headers=headers) as answer:
                assert answer.status == 204


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_clerk_killed_while_it_sets_a_receipt_aside_sets_it_aside_once(
    statement: str, site: Site, record_property: Told
) -> None:
    async with sms_scene_of(site, {"S1": number(1)}) as scene, StatementProxy(site.dsn) as proxy:
        first = await scene.start("--no-work", dsn=proxy.dsn)
        await until(lambda: "receipts at" in scene.said(first))
        proxy.watch = strike(statement, Side.BEFORE, first.pid)
        await report(scene)
        await scene.killed(first)
        second = await scene.start("--no-work", dsn=proxy.dsn)
        proxy.watch = strike(statement, Side.AFTER, second.pid)
        await scene.killed(second)
        record_property("crash", f"SIGKILL before and after {statement}, setting a receipt aside")
        third = await scene.start("--no-work")
        await until(lambda: "receipts at" in scene.said(third))
        await until(lambda: site.count("inbox") == 0)
        await scene.stop(third)
        assert site.select(SETTING_ASIDE) == [("no-attempt",)]
        assert site.paused() == ["all"]
        assert [task[0] for task in site.tasks()] == ["commits-lost"]
