"""Why a data directory could not be made is told by its first error, not by the tidying up after it."""

from __future__ import annotations

import pytest

from sendledger.postgres.cluster import _reason

FULL_DISK = """\
2026-03-02 09:00:00.152 UTC [6494] ERROR:  could not extend file "base/1/1255": No space left on device
2026-03-02 09:00:00.152 UTC [6494] HINT:  Check free disk space.
2026-03-02 09:00:00.153 UTC [6494] PANIC:  cannot abort transaction 1, it was already committed
child process was terminated by signal 6: Aborted
initdb: removing data directory "/srv/state/postgres/new/data"
"""


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (FULL_DISK, 'could not extend file "base/1/1255": No space left on device'),
        (
            'initdb: error: could not create directory "x": Permission denied\n',
            'could not create directory "x": Permission denied',
        ),
        ("initdb: something else\n", "initdb: something else"),
        ("", "no message"),
    ],
)
def test_the_first_error_is_the_reason(told: str, reason: str) -> None:
    assert _reason(told) == reason
