"""Planning as a process: killed half-way it leaves nothing, and a long file costs no memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from embedded_process import until
from plan_kit import HEADER, NOTHING, School, pupil

ROWS = 6_000
"""More than a chunk: the first is in the database while the second is read."""

HALF_WAY = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'idle in transaction'
    AND backend_xid IS NOT NULL AND query LIKE '%COPY sendledger.delivery %'
"""
CONNECTED = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

MEASURED = """
import resource, sys
from sendledger.cli import main

def plan(batch, rows):
    try:
        main(["plan", batch, "-r", rows, "-c", sys.argv[1]])
    except SystemExit as ended:
        assert ended.code == 0, ended.code
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

few = plan(sys.argv[2], sys.argv[3])
many = plan(sys.argv[4], sys.argv[5])
print(few, many)
"""


@contextmanager
def planner_of(school: School) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "sendledger", *school.arguments()]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(first: int, last: int) -> bytes:
    return "".join(f"{','.join(pupil(number))}\n" for number in range(first, last)).encode()


def found(school: School, query: str) -> int:
    return int(school.select(query)[0][0])


def test_a_plan_killed_half_way_leaves_nothing_and_can_be_repeated(school: School) -> None:
    os.mkfifo(school.recipients)
    with planner_of(school) as process:
        with school.recipients.open("wb", buffering=0) as rows:
            rows.write(f"{','.join(HEADER)}\nbad,,,\n".encode() + lines(0, ROWS))
            until(lambda: found(school, HALF_WAY) == 1)
            process.kill()
        process.wait()
    until(lambda: found(school, CONNECTED) == 0)
    assert school.counts() == NOTHING
    assert not school.rejects.exists()

    school.recipients.unlink()
    school.write_rows(pupil(number) for number in range(ROWS))
    assert school.plan().code == 0
    assert school.counts() == (1, 1, ROWS, ROWS, ROWS)


def test_memory_does_not_grow_with_the_file(school: School) -> None:
    few, many = school.folder / "few.csv", school.folder / "many.csv"
    header = f"{','.join(HEADER)}\n".encode()
    few.write_bytes(header + lines(0, 10_000))
    many.write_bytes(header + lines(0, 50_000))
    batch, other = school.folder / "batch.yaml", school.folder / "other.yaml"
    other.write_text(batch.read_text().replace("2026-spring-1", "2026-spring-2"))
    arguments = [school.folder / "sendledger.yaml", batch, few, other, many]

    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )

    after_few, after_many = map(int, done.stdout.splitlines()[-1].split())
    assert after_many < after_few * 1.15
    assert "50000 rows read" in done.stderr
