"""What the settings file says, with every default in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.json_schema import WithJsonSchema

from sendledger.ledger.limits import Limits
from sendledger.settings.address import Address, parse_address, public_url
from sendledger.settings.attachments import AttachmentSettings
from sendledger.settings.secret import Secret
from sendledger.settings.types import LocalPath, PositiveDuration, SettingsModel
from sendledger.settings.validate import RawBlock

NAME = r"^[a-z][a-z0-9_-]{0,31}$"

_FORMS = "the word embedded, {embedded: {port: N}}, or {dsn: {$env: NAME}}"
_DATABASE = f"expected {_FORMS}"
_PAUSE = (
    "a limit of zero would stop the channel without saying so; to stop it, use sendledger pause"
)


def _name(found: str) -> str:
    if not re.fullmatch(NAME, found):
        raise ValueError(
            "expected a name of at most 32 lower-case letters, digits, _ and -, beginning with a letter"
        )
    return found


Name = Annotated[str, AfterValidator(_name), WithJsonSchema({"type": "string", "pattern": NAME})]
"""What channels and plugins are called."""


class EmbeddedSettings(SettingsModel):
    """The Postgres server that Sendledger runs itself; without a port it chooses one and remembers it."""

    port: int | None = Field(default=None, ge=1, le=65535)


class DatabaseSettings(SettingsModel):
    """Where the ledger is: exactly one of ``embedded`` and ``dsn``. A DSN holds a password, so it is secret.

    ``direct_dsn`` is for a ``dsn`` that leads through a connection pooler: the way past it, for migrations
    and for hearing of new work at once.
    """

    embedded: EmbeddedSettings | None = None
    dsn: Secret | None = None
    direct_dsn: Secret | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.embedded is None) == (self.dsn is None):
            raise ValueError(_DATABASE)
        if self.dsn is None and self.direct_dsn is not None:
            raise ValueError("direct_dsn belongs beside a dsn that leads through a pooler")
        return self

    @property
    def direct(self) -> Secret | None:
        """The DSN that passes no pooler, as far as the settings know; None when embedded."""
        return self.direct_dsn or self.dsn


def _not_zero(found: Any) -> Any:
    if isinstance(found, str) and re.fullmatch(r"[-+]?0*\.?0*", found) and "0" in found:
        raise ValueError(_PAUSE)
    return found


Count = Annotated[int, Field(ge=1, le=100_000), BeforeValidator(_not_zero)]
"""How many attempts may be open at once."""

Rate = Annotated[
    float, Field(ge=0.0001, le=100_000, allow_inf_nan=False), BeforeValidator(_not_zero)
]
"""How many attempts may begin in a second; 0.0001 is one in almost three hours."""


def _listen(found: str) -> str:
    return str(parse_address(found))


Listen = Annotated[str, AfterValidator(_listen)]
"""HOST:PORT; an IPv6 host in brackets."""

PublicUrl = Annotated[
    str,
    AfterValidator(public_url),
    WithJsonSchema({"type": "string", "pattern": "^https?://"}),
]
"""An https URL without query; http for this machine only."""


class LimitSettings(SettingsModel):
    """What a channel may do, over all workers together; what is not set is not limited.

    ``domain_`` limits hold for each destination domain. A limit of zero is refused: to stop a channel,
    pause it.
    """

    in_flight: Count | None = None
    per_second: Rate | None = None
    domain_in_flight: Count | None = None
    domain_per_second: Rate | None = None

    def typed(self) -> Limits:
        """Return the limits as dispatch reads them."""
        return Limits(**dict(self))


class ChannelSettings(SettingsModel):
    """A configured channel. ``slots`` bounds what a crash can leave ambiguous; the plugin types ``settings``."""

    plugin: Name
    slots: int = Field(default=50, ge=1, le=10_000)
    limits: LimitSettings = LimitSettings()
    settings: RawBlock


class HttpSettings(SettingsModel):
    """Where ``sendledger serve`` listens, and how the world finds it.

    ``listen`` is HOST:PORT, behind a proxy that speaks TLS. ``public_url`` is what providers call and sign:
    the only URL that is believed, whatever a request says of its host.
    """

    listen: Listen = Field(default="127.0.0.1:8080", validate_default=True)
    public_url: PublicUrl | None = None

    @property
    def address(self) -> Address:
        """Where to listen."""
        return parse_address(self.listen)


class WorkerSettings(SettingsModel):
    """The rhythm of the loops.

    ``lease`` is how long a claim is held before others may recover it, ``sweep`` how often they look,
    ``poll`` how often an idle loop asks for work, ``claim_max`` how many rows one claim takes,
    ``stop_grace`` how long a stop waits for what is in flight before it is recorded as unknown.
    """

    lease: PositiveDuration = Field(default="30s", validate_default=True)
    sweep: PositiveDuration = Field(default="15s", validate_default=True)
    poll: PositiveDuration = Field(default="2s", validate_default=True)
    claim_max: int = Field(default=100, ge=1, le=10_000)
    stop_grace: PositiveDuration = Field(default="30s", validate_default=True)


def _database(found: Any) -> Any:
    match found:
        case "embedded":
            return {"embedded": {}}
        case Mapping() | DatabaseSettings():
            return found
        case _:
            raise ValueError(_DATABASE)


class Settings(SettingsModel):
    """Everything an installation configures except its policy.

    ``database`` has no default: a missing configuration must never mean a fresh, empty ledger.
    ``policy`` names the policy file; without one the defaults of ``PolicySettings`` hold.
    """

    database: Annotated[DatabaseSettings, BeforeValidator(_database)] = Field(description=_FORMS)
    state_dir: LocalPath = Field(default=Path("state"), validate_default=True)
    policy: LocalPath | None = None
    channels: dict[Name, ChannelSettings] = Field(default={})
    plugins: tuple[Name, ...] = ("policy",)
    worker: WorkerSettings = WorkerSettings()
    http: HttpSettings = HttpSettings()
    attachments: AttachmentSettings = AttachmentSettings()
