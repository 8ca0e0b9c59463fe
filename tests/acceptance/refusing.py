"""What tests of refused commands share."""

from __future__ import annotations

from acceptance.rig import Ran, Site

CANARY = "c4n4ry-passw0rd"
"""A secret that no sentence may repeat."""


def assert_refused(ran: Ran, sentence: str) -> None:
    """Check that this one sentence is all that is said."""
    assert (ran.code, ran.out, ran.err) == (2, "", f"sendledger: {sentence}\n")


def told(site: Site, *arguments: str) -> Ran:
    """Run a command in this process; paths are shown as from the installation's folder."""
    ran = site.called(*arguments)
    return Ran(code=ran.code, out=ran.out, err=ran.err.replace(f"{site.folder}/", ""))
