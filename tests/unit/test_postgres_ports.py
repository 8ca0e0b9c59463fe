"""Which port an embedded server is given."""

from __future__ import annotations

import socket
from pathlib import Path

from sendledger.postgres.ports import CANDIDATES, choose_port


def test_neighbours_do_not_want_the_port_of_one_that_is_stopped() -> None:
    """Without it, each would take the lowest free port: the one a stopped neighbour comes back to."""
    homes = [Path(f"/srv/installation-{number}/data") for number in range(20)]
    wanted = {choose_port(fixed=None, remembered=None, home=home) for home in homes}
    assert wanted <= set(CANDIDATES)
    assert len(wanted) > len(homes) // 2


def test_a_remembered_port_comes_before_a_chosen_one() -> None:
    home = Path("/srv/installation/data")
    chosen = choose_port(fixed=None, remembered=None, home=home)
    other = next(port for port in CANDIDATES if port != chosen and is_free(port))
    assert choose_port(fixed=None, remembered=other, home=home) == other


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
