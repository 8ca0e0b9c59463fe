"""How the server's programs are run: PostgreSQL refuses root, and root need not refuse PostgreSQL.

As an ordinary user nothing is special. As root the programs run in a user namespace in which we are
somebody else: outside it process and files stay root's, so no user is made, no mode is changed and a
virtual environment under a private home works. Where namespaces are forbidden (the default profile of
most container engines) they run as an existing unprivileged user, who then owns the data directory.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sendledger.postgres.errors import PostgresError, explain
from sendledger.postgres.layout import Layout
from sendledger.postgres.programs import copy_programs

NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
SERVER_USERS = ("sendledger", "postgres", "nobody")
"""Existing users the server may run as, the best first: one that other services share comes last."""


def plain_environment() -> Mapping[str, str]:
    """Return our environment without what would steer libpq or the server behind our back."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A way to run the programs in ``programs``: behind a prefix, as another user, or simply so."""

    programs: Path
    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def run(self, *command: str, keep: int, stdin: str) -> subprocess.CompletedProcess[str]:
        """Run one program to its end, in its own session; it inherits the descriptor *keep*."""
        return subprocess.run(  # noqa: S603 - our own programs, no shell
            [*self.prefix, str(self.programs / command[0]), *command[1:]],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**plain_environment(), "LC_ALL": "C"},
            pass_fds=(keep,),
            start_new_session=True,
            user=self.uid,
            group=self.gid,
            extra_groups=self._groups,
        )

    def spawn(self, *command: str, keep: int, log: int) -> None:
        """Start a program that outlives us: nobody's child, in a session no Ctrl-C reaches.

        The shell puts it in the background and leaves, so that it never becomes our zombie and a
        restart of ours changes nothing for it. Arguments pass the shell untouched.
        """
        program = [*self.prefix, str(self.programs / command[0]), *command[1:]]
        subprocess.run(  # noqa: S603 - our own programs
            ["/bin/sh", "-c", '"$@" &', "sh", *program],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
            env={**plain_environment(), "LC_ALL": "C"},
            pass_fds=(keep,),
            start_new_session=True,
            user=self.uid,
            group=self.gid,
            extra_groups=self._groups,
        )

    def works_in(self, area: Path) -> bool:
        """Whether the server program runs and can enter *area*."""
        return self._tries('cd "$1" && "$2" --version', area, self.programs / "postgres")

    def reaches(self, area: Path) -> bool:
        """Whether whoever runs the programs can enter *area*."""
        return self._tries('cd "$1"', area)

    def own(self, tree: Path) -> None:
        """Give *tree* to the user the programs run as."""
        if self.uid is None or self.gid is None or tree.stat().st_uid == self.uid:
            return
        for folder, _, files in os.walk(tree):
            for name in (folder, *(os.path.join(folder, file) for file in files)):  # noqa: PTH118
                os.chown(name, self.uid, self.gid, follow_symlinks=False)

    @property
    def _groups(self) -> list[int] | None:
        return None if self.uid is None else []

    def _tries(self, script: str, *arguments: Path) -> bool:
        done = subprocess.run(  # noqa: S603 - our own programs
            [*self.prefix, "/bin/sh", "-c", script, "sh", *map(str, arguments)],
            capture_output=True,
            check=False,
            cwd="/",
            user=self.uid,
            group=self.gid,
            extra_groups=self._groups,
        )
        return done.returncode == 0


def choose_launcher(programs: Path, layout: Layout) -> Launcher:
    """Return a launcher that works for this process. Raises :class:`PostgresError` when none does."""
    plain = Launcher(programs=programs)
    if os.geteuid() != 0:
        return plain
    data_owner = layout.data.stat().st_uid if layout.data.exists() else 0
    if data_owner == 0 and shutil.which(NAMESPACE[0]):
        shielded = replace(plain, prefix=NAMESPACE)
        if shielded.works_in(layout.area):
            return shielded
    return _as_other_user(plain, layout, data_owner)


def _as_other_user(plain: Launcher, layout: Layout, data_owner: int) -> Launcher:
    user = _server_user(data_owner)
    launcher = replace(plain, uid=user.pw_uid, gid=user.pw_gid)
    _let_pass(layout, user.pw_gid)
    if not launcher.reaches(layout.area):
        raise PostgresError(
            f"{layout.area}: PostgreSQL cannot run as root, and user {user.pw_name} cannot enter this"
            " folder; choose a state directory that every user may pass, such as one below /var/lib,"
            " or run Sendledger as an ordinary user"
        )
    if not launcher.works_in(layout.area):
        with explain(layout.area, "free the space for a copy of the PostgreSQL programs"):
            launcher = replace(launcher, programs=copy_programs(plain.programs, layout.area))
    if layout.data.exists():
        launcher.own(layout.data)
    return launcher


def _server_user(data_owner: int) -> pwd.struct_passwd:
    """Return the user who owns the data already, else the first of those that exist."""
    users = {user.pw_uid if data_owner else user.pw_name: user for user in pwd.getpwall()}
    wanted: tuple[int | str, ...] = (data_owner,) if data_owner else SERVER_USERS
    for key in wanted:
        if key in users:
            return users[key]
    raise PostgresError(
        f"PostgreSQL cannot run as root, and of the users it could run as ({', '.join(map(str, wanted))})"
        " none exists; run Sendledger as an ordinary user"
    )


def _let_pass(layout: Layout, gid: int) -> None:
    """Let the server's group pass, and only pass, through our own two folders; never their parents."""
    for folder in (layout.state_dir, layout.area):
        found = folder.stat()
        if found.st_uid == 0 and not found.st_mode & 0o001:
            os.chown(folder, -1, gid)
            folder.chmod(0o710)
