"""From a batch file to what planning takes; what does not fit is told with its place in that file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from sendledger.cli.recipients import Columns
from sendledger.content import TemplateError
from sendledger.journal.intake import Intake, PlanRequest
from sendledger.keys import KeyRing
from sendledger.ledger.words import Lane
from sendledger.plugin import ContentFault
from sendledger.plugin.host import PluginHost
from sendledger.settings.batch import BatchFile, BatchSettings


def read_intake(batch: BatchFile, host: PluginHost, keys: KeyRing) -> Intake:
    """Return the intake of *batch*. Raises ``SettingsError`` or ``PluginFault``."""
    channel = host.channels.get(batch.settings.channel)
    if channel is None:
        known = ", ".join(host.channels) or "none"
        raise batch.fault(("channel",), f"no such channel is configured; configured: {known}")
    not_after = batch.settings.not_after
    if not_after is not None and not_after <= datetime.now(UTC):
        raise batch.fault(("not_after",), "has passed; nothing could be sent any more")
    try:
        return Intake(_request(batch.settings), channel, keys)
    except TemplateError as error:
        place = f"line {error.line}, column {error.column} of the text: " if error.line else ""
        raise batch.fault(("content", error.part), place + error.sentence) from None
    except ContentFault as fault:
        raise batch.fault(("content",), f"{fault.reason} ({fault.rule})") from None


def read_columns(batch: BatchFile, intake: Intake) -> Columns:
    """Return which column holds what. Raises ``SettingsError`` when the content needs what none can hold."""
    _refuse_paths(batch, intake)
    columns = batch.settings.recipients
    return Columns(
        recipient_id=columns.id,
        destination=columns.destination,
        variables=_variables(batch, intake),
    )


def _variables(batch: BatchFile, intake: Intake) -> Mapping[str, str]:
    mapped = batch.settings.variables
    if mapped is None:
        return {name: name for name in intake.names}
    if missing := [name for name in intake.names if name not in mapped]:
        names = ", ".join(missing)
        raise batch.fault(("variables",), f"the content uses {names}; name the column of each")
    return mapped


def _refuse_paths(batch: BatchFile, intake: Intake) -> None:
    """Refuse ``{{a.b}}``: it looks inside of a value, and a column holds plain text."""
    sample = dict.fromkeys(intake.names, "x")
    for name, part in intake.content.parts.items():
        try:
            part.render(sample)
        except KeyError as error:
            sentence = (
                f"{{{{{error.args[0]}}}}} looks inside of a value, and a column holds text only"
            )
            raise batch.fault(("content", name), f"{sentence}; use a plain name") from None


def _request(settings: BatchSettings) -> PlanRequest:
    return PlanRequest(
        report=settings.report,
        content_revision=settings.content_revision,
        purpose=settings.purpose,
        lane=Lane[settings.lane.upper()],
        authorization_id=settings.authorization.id,
        authorized_by=settings.authorization.by,
        authorized_at=settings.authorization.at,
        parts=settings.content.parts,
        settings=settings.content.settings,
        not_before=settings.not_before,
        not_after=settings.not_after,
    )
