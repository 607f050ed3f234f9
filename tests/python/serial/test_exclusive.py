"""Exclusive use: against this process, other programs, and programs that take no lock."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.serial import PortBusyError, PortNotFoundError, SerialConfig, open_serial_port
from penstock.serial._tty import lock_files
from tests.python.serial.pty_peer import PtyPeer

pytestmark = pytest.mark.anyio

SHARED = SerialConfig(exclusive=False)


async def test_port_in_use_by_this_process_is_busy_and_says_so(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path):
        with pytest.raises(PortBusyError, match=f"^{peer.path} is in use by this very process"):
            await open_serial_port(peer.path)
    async with await open_serial_port(peer.path):
        pass


async def test_exclusive_port_also_refuses_shared_opens(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path):
        with pytest.raises(PortBusyError):
            await open_serial_port(peer.path, SHARED)


async def test_shared_port_can_be_shared_but_not_made_exclusive(peer: PtyPeer) -> None:
    async with (
        await open_serial_port(peer.path, SHARED) as first,
        await open_serial_port(peer.path, SHARED),
    ):
        with pytest.raises(PortBusyError):
            await open_serial_port(peer.path)
        with pytest.raises(PortBusyError):
            await first.configure(SerialConfig(baudrate=9600))
        assert first.config == SHARED
        assert first.actual_baudrate == SHARED.baudrate
        with pytest.raises(PortBusyError):  # the refused change has kept the shared lock
            await open_serial_port(peer.path)


async def test_last_shared_close_restores_the_settings(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path, SHARED):
        async with await open_serial_port(peer.path, SHARED):
            in_use = peer.settings()
        assert peer.settings() == in_use
    assert peer.settings() == peer.found_as


async def test_kernels_exclusive_flag_is_set_and_cleared(peer: PtyPeer) -> None:
    """TIOCEXCL refuses programs that take no lock, such as cat."""
    async with await open_serial_port(peer.path):
        assert peer.is_exclusive()
    assert not peer.is_exclusive()


HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
(fcntl.lockf if "lockf" in sys.argv else fcntl.flock)(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_holder(path: str, *how: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, path, *how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()


async def test_lock_of_another_program_is_reported_with_its_process(peer: PtyPeer) -> None:
    with another_holder(peer.path) as holder:
        with pytest.raises(PortBusyError, match=rf"process {holder.pid} \(\w+.*\); end it or"):
            await open_serial_port(peer.path)
        assert peer.settings() == peer.found_as


@pytest.mark.parametrize("settings", [None, SHARED], ids=["exclusive", "shared"])
async def test_record_lock_of_another_program_is_respected(
    peer: PtyPeer, settings: SerialConfig | None
) -> None:
    with another_holder(peer.path, "lockf") as holder:
        with pytest.raises(PortBusyError, match=rf"process {holder.pid} \("):
            await open_serial_port(peer.path, *([settings] if settings is not None else []))
        assert peer.settings() == peer.found_as
    async with await open_serial_port(peer.path):
        pass


async def test_link_to_a_port_in_use_is_busy(peer: PtyPeer, tmp_path: object) -> None:
    link = f"{tmp_path}/by-id"
    os.symlink(peer.path, link)
    async with await open_serial_port(peer.path):
        with pytest.raises(PortBusyError):
            await open_serial_port(link)


KILLED = """
import os, signal, sys, anyio
from penstock.serial import open_serial_port

async def main():
    await open_serial_port(sys.argv[1])
    os.kill(os.getpid(), signal.SIGKILL)

anyio.run(main)
"""


@pytest.mark.skipif(
    os.geteuid() != 0, reason="a killed holder's flag stays on a pty; only root passes it"
)
async def test_pty_of_a_killed_holder_can_be_opened_again(peer: PtyPeer) -> None:
    subprocess.run(
        [sys.executable, "-c", KILLED, peer.path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
        check=False,
    )
    assert peer.is_exclusive()
    async with await open_serial_port(peer.path):
        pass
    assert not peer.is_exclusive()


async def test_lock_taken_between_open_and_close_is_exclusive(peer: PtyPeer) -> None:
    other = os.open(peer.path, os.O_RDWR | os.O_NOCTTY)
    try:
        async with await open_serial_port(peer.path):
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of lock files, where a pseudo-terminal may have one too."""
    monkeypatch.setattr(lock_files, "_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(lock_files, "_NEVER_LOCKED", ("/nowhere/",))
    return tmp_path


def a_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


@pytest.mark.parametrize("form", ["%10d\n", "%d", "%d minicom root\n", "binary"])
async def test_lock_file_of_a_program_that_runs_is_respected(
    peer: PtyPeer, locks: Path, tmp_path: Path, form: str
) -> None:
    link = tmp_path / "by-id"
    link.symlink_to(peer.path)
    with a_process() as holder:
        number = holder.pid
        text = "" if form == "binary" else form % number
        content = text.encode() or number.to_bytes(4, sys.byteorder)
        (locks / f"LCK..pts_{Path(peer.path).name}").write_bytes(content)
        for path in (peer.path, str(link)):
            with pytest.raises(PortBusyError, match=rf"process {number} \(.*LCK\.\.pts_.*; end it"):
                await open_serial_port(path)
        assert peer.settings() == peer.found_as
        async with await open_serial_port(peer.path, SHARED) as port:
            with pytest.raises(PortBusyError):
                await port.configure(SerialConfig())
        holder.communicate()
    async with await open_serial_port(peer.path):  # it has ended, and left the file
        pass


@pytest.mark.parametrize("content", [b"", b"minicom\n", b"0\n", b"9" * 70, bytes(4)])
async def test_lock_file_that_names_no_process_is_ignored(
    peer: PtyPeer, locks: Path, content: bytes
) -> None:
    (locks / f"LCK..pts_{Path(peer.path).name}").write_bytes(content)
    async with await open_serial_port(peer.path):
        pass


async def test_lock_file_of_this_process_is_ignored(peer: PtyPeer, locks: Path) -> None:
    (locks / f"LCK..pts_{Path(peer.path).name}").write_text(f"{os.getpid():10}\n")
    async with await open_serial_port(peer.path):
        pass


async def test_lock_file_of_a_port_that_is_missing_does_not_hide_that(locks: Path) -> None:
    with a_process() as holder:
        (locks / "LCK..ttyNONE").write_text(str(holder.pid))
        with pytest.raises(PortNotFoundError):
            await open_serial_port("/dev/ttyNONE")
        holder.communicate()
