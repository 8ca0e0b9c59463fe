"""Where the ledger is: embedded, or a DSN with the way past its pooler."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendledger.plugin import Secret
from sendledger.settings.load import load_settings
from sendledger.settings.model import DatabaseSettings
from sendledger.settings.problems import SettingsError
from sendledger.settings.validate import SECRETS

WHERE = "expected the word embedded, {embedded: {port: N}}, or {dsn: {$env: NAME}}"
ENV = {"DSN": "postgresql://pooler.test", "DIRECT": "postgresql://server.test"}


def database(folder: Path, text: str) -> DatabaseSettings:
    file = folder / "settings.yaml"
    file.write_text(f"database: {text}\n", encoding="utf-8")
    return load_settings(file, ENV).database


def test_a_dsn_is_taken_to_be_direct_unless_another_is_named(tmp_path: Path) -> None:
    alone = database(tmp_path, "{dsn: {$env: DSN}}")
    both = database(tmp_path, "{dsn: {$env: DSN}, direct_dsn: {$env: DIRECT}}")
    assert alone.direct == Secret(ENV["DSN"])
    assert (both.dsn, both.direct) == (Secret(ENV["DSN"]), Secret(ENV["DIRECT"]))
    assert database(tmp_path, "embedded").direct is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{direct_dsn: {$env: DIRECT}}", f"database (line 1): {WHERE}"),
        (
            "{embedded: {}, direct_dsn: {$env: DIRECT}}",
            "database (line 1): direct_dsn belongs beside a dsn that leads through a pooler",
        ),
        ("{dsn: {$env: DSN}, direct_dsn: here}", f"database.direct_dsn (line 1): {SECRETS}"),
    ],
)
def test_a_direct_dsn_alone_or_in_the_clear_is_refused(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        database(tmp_path, text)
    assert caught.value.problems == [told]
