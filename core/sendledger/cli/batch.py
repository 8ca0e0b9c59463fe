"""From a batch file to what planning takes; what does not fit is told with its place in that file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sendledger.attachments import Files
from sendledger.bootstrap import Plan
from sendledger.cli.columns import Columns
from sendledger.cli.errors import UsageFault
from sendledger.journal.attaching import Attaching, NothingAttached, open_attaching
from sendledger.journal.batch import BatchFault, batch_of
from sendledger.journal.conflicts import PlanConflict
from sendledger.journal.intake import Intake, open_intake
from sendledger.keys import KeyRing
from sendledger.plugin.host import PluginHost
from sendledger.settings.batch import BatchFile
from sendledger.settings.problems import SettingsError


def read_intake(batch: BatchFile, host: PluginHost, keys: KeyRing) -> Intake:
    """Return the intake of *batch*. Raises ``SettingsError`` or ``PluginFault``."""
    with placed(batch):
        return open_intake(batch_of(batch.settings), host, keys)


@contextmanager
def placed(batch: BatchFile) -> Iterator[None]:
    """Tell a fault of *batch* with its line. Raises ``SettingsError``, or ``UsageFault`` for a conflict."""
    try:
        yield
    except BatchFault as fault:
        raise _told(batch, fault) from None
    except PlanConflict as conflict:
        raise UsageFault(f"{batch.file}: {conflict}") from None


def read_attaching(batch: BatchFile, plan: Plan) -> Attaching | NothingAttached:
    """Return how the rows of *batch* come by their files. Raises ``SettingsError``."""
    with placed(batch):
        return open_attaching(
            batch_of(batch.settings), plan.host.channels, Files(plan.settings.attachments)
        )


def read_columns(
    batch: BatchFile, intake: Intake, *, nested: bool, beside: frozenset[str] = frozenset()
) -> Columns:
    """Return which column holds what; a *nested* one may hold lists and mappings.

    The names *beside* those of the content are read as well; one that ``variables`` does not map is a
    column itself.

    Raises ``SettingsError`` or ``UsageFault`` when the content needs what no column holds or can hold.
    """
    if not nested:
        _refuse_paths(batch, intake)
    # Inside of a section a name may be one of the item's; without nesting there are no items.
    optional = intake.inner if nested else frozenset()
    columns = batch.settings.recipients
    shown = _variables(batch, intake, optional)
    return Columns(
        recipient_id=columns.id,
        destination=columns.destination,
        variables={**{name: name for name in beside}, **shown},
        optional=optional,
        uses={column: _use(batch, intake, name) for name, column in shown.items()},
    )


def _variables(batch: BatchFile, intake: Intake, optional: frozenset[str]) -> Mapping[str, str]:
    mapped = batch.settings.variables
    if mapped is None:
        return {name: name for name in intake.names}
    missing = [name for name in intake.names if name not in {*mapped, *optional}]
    if missing:
        sentence = (
            "{{{{{}}}}} is supplied by no column; name its column in variables, or take it out"
        )
        faults = [intake.fault(name, sentence.format(name)) for name in missing]
        raise UsageFault(*(str(_told(batch, fault)) for fault in faults))
    return mapped


def _refuse_paths(batch: BatchFile, intake: Intake) -> None:
    """Refuse ``{{a.b}}``: it looks inside of a value, and a column of CSV holds plain text."""
    sample = dict.fromkeys(intake.names, "x")
    for part in intake.content.parts.values():
        try:
            part.render(sample)
        except KeyError as error:
            path = str(error.args[0])
            sentence = (
                f"{{{{{path}}}}} looks inside of a value, and a column of CSV holds text only"
            )
            fault = intake.fault(path.partition(".")[0], f"{sentence}; use a plain name, or JSON")
            raise _told(batch, fault) from None


def _use(batch: BatchFile, intake: Intake, name: str) -> str:
    fault = intake.fault(name, "")
    return f"{{{{{name}}}}} in {batch.place(fault.path, line=fault.line, column=fault.column)}"


def _told(batch: BatchFile, fault: BatchFault) -> SettingsError:
    return batch.fault(fault.path, fault.sentence, line=fault.line, column=fault.column)
