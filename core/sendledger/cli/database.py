"""``sendledger db``: the embedded server, and the schema of either kind of database."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from sendledger.bootstrap import embedded, key_ring
from sendledger.cli.errors import UsageFault
from sendledger.cli.options import Config, config_path
from sendledger.postgres import Embedded, StopResult
from sendledger.settings.load import load_settings
from sendledger.settings.model import Settings
from sendledger.store.migrate import migrate, offline_sql
from sendledger.store.schema import head_revision, schema_revision

app = typer.Typer(no_args_is_help=True, help="The embedded database server, and the schema.")


def _settings(config: Config) -> Settings:
    return load_settings(config_path(config), os.environ)


def _server(settings: Settings) -> Embedded:
    server = embedded(settings)
    if server is None:
        raise UsageFault(
            "the settings name a DSN: that server is not ours to start or stop; use its own tools"
        )
    return server


@app.command()
def start(config: Config = None) -> None:
    """Start the embedded server unless it runs, and bring its schema up to date."""
    settings = _settings(config)
    server = _server(settings)
    migrate(server.ensure(), installation_id=key_ring(settings).installation_id)
    found = server.status()
    server.release()
    typer.echo(f"running: PostgreSQL {found.version}, port {found.port}, {found.data_directory}")


@app.command()
def stop(config: Config = None) -> None:
    """Stop the embedded server, unless another process uses it."""
    match _server(_settings(config)).stop():
        case StopResult.STOPPED:
            typer.echo("stopped")
        case StopResult.NOT_RUNNING:
            typer.echo("not running")
        case StopResult.IN_USE:
            raise UsageFault("another process uses the server: stop that one first")


@app.command()
def status(config: Config = None) -> None:
    """Say whether the embedded server runs, and who uses it."""
    found = _server(_settings(config)).status()
    if not found.running:
        typer.echo(f"not running; data in {found.data_directory}")
        raise typer.Exit(1)
    use = "in use by other processes" if found.used_by_others else "not in use"
    typer.echo(
        f"running: PostgreSQL {found.version}, port {found.port}, pid {found.pid}, {use};"
        f" data in {found.data_directory}"
    )


@app.command()
def psql(config: Config = None) -> None:
    """Open psql on the embedded server; the password stays in its file."""
    command, environment = _server(_settings(config)).psql_command()
    os.execvpe(command[0], command, {**os.environ, **environment})  # noqa: S606 - our own program


@app.command("migrate")
def migrate_command(
    config: Config = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL for review instead.")] = False,  # noqa: FBT002
) -> None:
    """Bring the schema of the configured database up to date; nothing else ever changes it."""
    if sql:
        typer.echo(offline_sql())
        return
    settings = _settings(config)
    server = embedded(settings)
    url = server.ensure() if server else _dsn(settings)
    before = schema_revision(url)
    migrate(url, installation_id=key_ring(settings).installation_id)
    after = head_revision()
    typer.echo(
        f"schema {after}, as it was" if before == after else f"schema {before or 'none'} -> {after}"
    )
    if server is not None:
        server.release()


def _dsn(settings: Settings) -> str:
    assert settings.database.direct is not None
    return settings.database.direct.reveal()
