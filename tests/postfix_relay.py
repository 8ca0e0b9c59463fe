"""A Postfix of a test's own as next hop: private configuration and queue, one loopback port, ended by its pid.

with postfix_relay(next_hop=server.port) as relay:
    ...  # hand over to relay.host, relay.port
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from debian_tools import debian_file

DEADLINE_S = 30.0
PAUSE_S = 0.02

needs_postfix = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run Postfix: it becomes others"),
]
"""Marks for tests that run one."""

# Whom the package would make, and who is there without it; the group must not be the user's own.
OWNERS = ("postfix", "list", "news")
GROUPS = ("postdrop", "irc", "games")

MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
meta_directory = {folder}/config
daemon_directory = {programs}/lib/postfix/sbin
shlib_directory = {programs}/lib/postfix
command_directory = {programs}/sbin
mail_owner = {owner}
setgid_group = {group}
default_privs = nobody
import_environment = MAIL_CONFIG MAIL_LOGTAG LD_LIBRARY_PATH
maillog_file = {folder}/data/log
maillog_file_prefixes = {folder}
myhostname = relay.example.test
mydestination =
alias_maps =
local_recipient_maps =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtp_dns_support_level = disabled
smtpd_relay_restrictions = permit_mynetworks, reject
"""
MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
tlsmgr unix - - n 1000 1 tlsmgr
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""
QUEUES = (
    "active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "private",
    "saved", "trace",
)  # fmt: skip


@dataclass(kw_only=True)
class PostfixRelay:
    """A running relay. ``log`` is what it wrote of itself, which tests show when they fail."""

    host: str
    port: int
    folder: Path

    @property
    def log(self) -> str:
        """What Postfix said."""
        with suppress(FileNotFoundError):
            return (self.folder / "data/log").read_text("utf-8", "replace")
        return ""


@contextmanager
def postfix_relay(
    *, next_hop: int | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[PostfixRelay]:
    """Run a relay that hands on to the loopback port *next_hop*, or throws away what it takes.

    *settings* are lines of ``main.cf`` that replace or join ours.
    """
    master = debian_file("usr/lib/postfix/sbin/master", package="postfix")
    # Not below pytest's folder: Postfix becomes other users, who cannot enter there.
    folder = Path(tempfile.mkdtemp(prefix="sendledger-postfix-"))
    try:
        relay = PostfixRelay(host="127.0.0.1", port=free_port(), folder=folder)
        onward = "discard:" if next_hop is None else f"smtp:[127.0.0.1]:{next_hop}"
        configure(relay, master.parents[3], {"default_transport": onward, **(settings or {})})
        with running(master, relay):
            yield relay
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what was killed may write its last


def configure(relay: PostfixRelay, programs: Path, settings: Mapping[str, str]) -> None:
    """Write the configuration, and the folders that Postfix's own script would make."""
    owner, group = account()
    folder = relay.folder
    folder.chmod(0o755)
    (folder / "config").mkdir()
    main = MAIN.format(folder=folder, programs=programs, owner=owner, group=group)
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    (folder / "config/main.cf").write_text(main + lines, "utf-8")
    # Postfix waits for two seconds until a file that is still being written is whole.
    os.utime(folder / "config/main.cf", (0, 0))
    (folder / "config/master.cf").write_text(MASTER.format(port=relay.port), "utf-8")
    (folder / "data").mkdir()
    shutil.chown(folder / "data", owner)
    for name in QUEUES:
        (folder / "queue" / name).mkdir(mode=0o700, parents=True)
        shutil.chown(folder / "queue" / name, owner)
    (folder / "queue/pid").mkdir()
    for name, mode in (("maildrop", 0o730), ("public", 0o710)):
        (folder / "queue" / name).mkdir()
        (folder / "queue" / name).chmod(mode)
        shutil.chown(folder / "queue" / name, owner, group)


def account() -> tuple[str, str]:
    """Return a user and another one's group that Postfix can become."""
    users = {user.pw_name for user in pwd.getpwall()}
    groups = {group.gr_name for group in grp.getgrall()}
    owner = next((name for name in OWNERS if name in users), None)
    group = next((name for name in GROUPS if name in groups), None)
    assert owner, f"Postfix runs as one of {', '.join(OWNERS)}; none of them is a user here"
    assert group, f"Postfix needs one of the groups {', '.join(GROUPS)}; none of them is here"
    return owner, group


@contextmanager
def running(master: Path, relay: PostfixRelay) -> Iterator[None]:
    """Run the master process until the block ends, and with it all that it started."""
    config = relay.folder / "config"
    environment = {
        "PATH": os.environ["PATH"],
        "MAIL_CONFIG": str(config),
        # Unpacked programs look for their libraries where the package would have put them.
        "LD_LIBRARY_PATH": str(master.parents[1]),
    }
    process = subprocess.Popen(
        [master, "-c", config, "-d"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(lambda: process.poll() is not None or greets(relay), relay)
        assert process.returncode is None, f"Postfix did not start:\n{relay.log}"
        yield
    finally:
        # Its session is its own, so nobody else is in the group.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def greets(relay: PostfixRelay) -> bool:
    """Whether somebody answers on the port."""
    try:
        with socket.create_connection((relay.host, relay.port), timeout=DEADLINE_S) as line:
            return line.recv(3).isdigit()
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], relay: PostfixRelay) -> None:
    """Return once *condition* holds; it must within the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"Postfix took too long:\n{relay.log}"
        time.sleep(PAUSE_S)


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
