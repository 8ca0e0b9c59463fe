"""What stands in the embedded server's way is named in one sentence, with place and remedy."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sendledger.postgres import Embedded, PostgresError, StopResult


@contextmanager
def stranger(port: int = 0) -> Iterator[int]:
    """Listen on a port without ever answering."""
    with socket.create_server(("127.0.0.1", port)) as server:
        yield server.getsockname()[1]


def refusal(server: Embedded) -> str:
    """Return the sentence with which a start is refused."""
    with pytest.raises(PostgresError) as caught:
        server.ensure()
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_a_fixed_port_is_obeyed(embedded: Embedded) -> None:
    with stranger() as free:
        pass
    embedded.port = free
    assert f":{free}/" in embedded.ensure()


def test_a_fixed_port_in_use_is_named(embedded: Embedded) -> None:
    with stranger() as port:
        embedded.port = port
        sentence = refusal(embedded)
    assert f"127.0.0.1:{port}" in sentence
    assert "in use" in sentence
    assert "stop the program that listens there" in sentence


def test_a_refused_start_leaves_no_user_behind(embedded: Embedded) -> None:
    with stranger() as port:
        embedded.port = port
        refusal(embedded)
    assert not Embedded(embedded.state_dir).status().used_by_others


def test_a_remembered_port_in_use_is_exchanged(embedded: Embedded) -> None:
    url = embedded.ensure()
    port = embedded.status().port
    assert port is not None
    embedded.stop()
    with stranger(port):
        assert embedded.ensure() != url
        assert embedded.status().port != port


def test_another_server_of_ours_on_the_port_is_not_taken_for_this_one(
    embedded: Embedded, made_once: Path, tmp_path: Path
) -> None:
    """Even one made from a copy of the same state directory, which knows the same password."""
    embedded.ensure()
    twin = Embedded(shutil.copytree(made_once, tmp_path / "twin"), wait_max_s=60)
    shutil.copy(embedded.state_dir / "postgres" / "server.json", twin.state_dir / "postgres")
    assert not twin.status().running
    twin.ensure()
    try:
        assert twin.status().port != embedded.status().port
        assert twin.status().pid != embedded.status().pid
    finally:
        assert twin.stop() is StopResult.STOPPED


def test_a_place_where_no_folder_can_be_made_is_named(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    sentence = refusal(Embedded(blocker / "state"))
    assert str(blocker / "state") in sentence
    assert "choose another state directory" in sentence


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_named_with_its_owner(embedded: Embedded) -> None:
    area = embedded.state_dir / "postgres"
    os.chown(area, 65534, -1)
    assert "belongs to user id 65534" in refusal(embedded)
    os.chown(area, 0, -1)


def test_data_of_another_major_version_is_named_with_both(embedded: Embedded) -> None:
    data = embedded.state_dir / "postgres" / "data"
    (data / "PG_VERSION").write_text("17\n", "ascii")
    sentence = refusal(embedded)
    assert str(data) in sentence
    assert "holds data of PostgreSQL 17" in sentence
    assert "are PostgreSQL 18" in sentence


def test_a_folder_that_is_no_data_directory_is_left_alone(never_started: Embedded) -> None:
    data = never_started.state_dir / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "letter.txt").write_text("keep me", "utf-8")
    assert "not a PostgreSQL data directory" in refusal(never_started)
    assert [entry.name for entry in data.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_password_others_can_read_is_refused(embedded: Embedded, mode: int) -> None:
    pgpass = embedded.state_dir / "postgres" / "pgpass"
    pgpass.chmod(mode)
    sentence = refusal(embedded)
    assert sentence.endswith(f"run chmod 600 {pgpass}")
    assert f"{mode:04o}" in sentence


def test_a_lost_password_is_not_replaced(embedded: Embedded) -> None:
    pgpass = embedded.state_dir / "postgres" / "pgpass"
    pgpass.unlink()
    assert str(pgpass) in refusal(embedded)
    assert not pgpass.exists()


def test_what_the_server_says_when_it_cannot_start_is_passed_on(embedded: Embedded) -> None:
    area = embedded.state_dir / "postgres"
    with (area / "data" / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write("no_such_setting = 1\n")
    sentence = refusal(embedded)
    assert re.search(r"PostgreSQL did not start: .*FATAL: .*postgresql\.conf", sentence)
    assert str(area / "server.log") in sentence


def test_a_psql_before_the_first_start_is_refused(never_started: Embedded) -> None:
    with pytest.raises(PostgresError, match="was never started"):
        never_started.psql_command()
