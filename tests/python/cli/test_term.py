"""``penstock term``, on a terminal and from a pipe, in a subprocess."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.python.serial.pty_peer import PtyPeer, received


class Screen:
    """A ``penstock`` command on its own terminal: keys in, screen out."""

    def __init__(self, arguments: list[str], environment: dict[str, str], cwd: Path) -> None:
        self.keyboard, terminal = pty.openpty()
        self.found_as = termios.tcgetattr(terminal)
        self._terminal = terminal
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", *arguments],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
        self.text = ""

    def type(self, keys: bytes) -> None:
        assert os.write(self.keyboard, keys) == len(keys)

    def wait_for(self, pattern: str) -> None:
        """Read the screen until *pattern* matches; then discard the text up to the match."""
        deadline = time.monotonic() + 60
        while not (found := re.search(pattern, self.text, re.S)):
            ready, _, _ = select.select([self.keyboard], [], [], deadline - time.monotonic())
            assert ready, f"no {pattern!r} on the screen, but {self.text!r}"
            self.text += os.read(self.keyboard, 65_536).decode(errors="replace")
        self.text = self.text[found.end() :]

    def leave(self) -> int:
        """Wait for the exit and return its code. The terminal must be restored."""
        code = self.process.wait(60)
        assert termios.tcgetattr(self._terminal) == self.found_as
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._terminal)
        os.close(self.keyboard)


@pytest.fixture
def screen(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    screens: list[Screen] = []

    def start(*arguments: str | Path) -> Screen:
        screens.append(Screen([str(a) for a in arguments], environment, tmp_path))
        return screens[-1]

    yield start
    for one in screens:
        one.close()


def test_keys_are_sent_to_the_port_and_its_bytes_shown(
    screen: Callable[..., Screen], peer: PtyPeer, tmp_path: Path
) -> None:
    term = screen("term", peer.path, "--baud", "19200", "--log", "log")
    term.wait_for(r"19200 8N1; Ctrl-\] leaves")
    assert peer.settings()[4] == termios.B19200
    term.type(b"a\x03\x1a\r")  # Ctrl-C and Ctrl-Z are also sent to the device
    assert received(peer, 5) == b"a\x03\x1a\r\n"
    peer.write(b"reply\r\n")
    term.wait_for("reply")
    term.type(b"\x14l\x14l\r")  # CRLF -> RAW -> CR
    term.wait_for("Enter sends CR\r")
    assert received(peer, 1) == b"\r"
    term.type(b"\x14x")
    term.wait_for("hexadecimal")
    peer.write(b"\x00A")
    term.wait_for(r"00000007  00 41 +\.A")
    term.type(b"\x14x\x14e")
    term.wait_for("local echo on")
    term.type(b"seen")
    term.wait_for("seen")
    term.type(b"\x14s")
    term.wait_for("log off")
    peer.write(b"unlogged")
    term.wait_for("unlogged")
    term.type(b"\x14h")
    term.wait_for("switch DTR")
    term.type(b"\x14\x14\x14\x1d\x14z")
    term.wait_for("Ctrl-T h lists")
    assert received(peer, 6) == b"seen\x14\x1d"
    term.type(b"\x14d")
    term.wait_for("does not support modem control lines")
    term.type(b"\x1d")
    assert term.leave() == 0
    assert (tmp_path / "log").read_bytes() == b"reply\r\n\x00A"


def test_keys_switch_lines_and_send_breaks(screen: Callable[..., Screen], tmp_path: Path) -> None:
    term = screen("term", "spy://loop://?file=traffic", "--rts", "off")
    term.wait_for("leaves")
    term.type(b"\x14d")
    term.wait_for("DTR off")
    term.type(b"\x14\x12")
    term.wait_for("RTS on")
    term.type(b"\x14i")
    term.wait_for("RTS on, DTR off, CTS on, DSR off, RI off, CD on")
    term.type(b"\x14b")
    term.wait_for("break sent")
    term.type(b"\x14q")
    assert term.leave() == 0
    lines = [line[11:] for line in (tmp_path / "traffic").read_text().splitlines()]
    wanted = [line for line in lines if line[:3] in ("DTR", "RTS", "BRK")]
    assert wanted == [
        *("RTS  inactive", "DTR  inactive", "RTS  active"),
        *("BRK  active", "BRK  inactive"),
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_restores_the_terminal(
    screen: Callable[..., Screen], number: signal.Signals, code: int
) -> None:
    term = screen("term", "loop://")
    term.wait_for("leaves")
    term.process.send_signal(number)
    assert term.leave() == code


def test_unplugged_device_ends_the_command_with_a_sentence(
    screen: Callable[..., Screen], peer: PtyPeer
) -> None:
    term = screen("term", peer.path)
    term.wait_for("leaves")
    peer.unplug()
    term.wait_for("was disconnected; plug the device in again")
    assert term.leave() == 4


def test_absent_device_can_be_waited_for(screen: Callable[..., Screen], tmp_path: Path) -> None:
    link = tmp_path / "device"
    term = screen("term", link, "--reconnect")
    term.wait_for("does not exist.*waiting for it")
    for _ in range(2):
        with PtyPeer() as peer:
            link.symlink_to(peer.path)
            term.wait_for("device connected")
            term.type(b"x")
            os.set_blocking(peer.fd, True)
            assert os.read(peer.fd, 1) == b"x"
            link.unlink()
        term.wait_for("device disconnected")
    term.type(b"\x1d")
    assert term.leave() == 0


def test_exit_key_works_while_the_device_accepts_nothing(
    screen: Callable[..., Screen], peer: PtyPeer
) -> None:
    term = screen("term", peer.path, "--eol", "raw")
    term.wait_for("leaves")
    for _ in range(200):  # far more than the line accepts while nobody reads at its other end
        term.type(b"x" * 1000)
    term.type(b"\x14x")
    term.wait_for("hexadecimal")
    term.type(b"\x1d")
    assert term.leave() == 0


def test_exit_key_works_while_the_device_is_disconnected(
    screen: Callable[..., Screen], tmp_path: Path
) -> None:
    term = screen("term", tmp_path / "device", "--reconnect")
    term.wait_for("waiting for it")
    term.type(b"for nobody\r\x14i\x1d")
    assert term.leave() == 0


def run_piped(
    environment: dict[str, str], sent: bytes | int, *arguments: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli", "term", *arguments],
        **({"input": sent} if isinstance(sent, bytes) else {"stdin": sent}),
        capture_output=True,
        env=environment,
        timeout=60,
    )


def test_pipe_is_sent_and_the_answer_printed(environment: dict[str, str]) -> None:
    payload = bytes(range(256)) * 20
    done = run_piped(environment, payload, "loop://", "--linger", "1.5")
    assert (done.returncode, done.stdout) == (0, payload)
    assert b"loop:// 115200 8N1" in done.stderr
    done = run_piped(
        environment, b"*IDN?\n", "loop://", "--eol", "cr", "--quiet", "--linger", "1.5"
    )
    assert (done.stdout, done.stderr) == (b"*IDN?\r", b"")


def test_file_and_empty_input_can_be_sent(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "commands").write_bytes(b"from a file")
    with open(tmp_path / "commands", "rb") as file:
        done = run_piped(environment, file.fileno(), "loop://", "--linger", "1.5", "--hex")
    assert done.stdout.startswith(b"00000000  66 72 6F 6D")
    done = run_piped(environment, subprocess.DEVNULL, "loop://", "--linger", "0")
    assert (done.returncode, done.stdout) == (0, b"")


def test_unreadable_input_is_reported(environment: dict[str, str], tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as file:
        done = run_piped(environment, file.fileno(), "loop://", "--linger", "0")
    assert done.returncode == 2
    assert b"standard input cannot be read: Bad file descriptor" in done.stderr
    assert b"defect" not in done.stderr


def test_blocked_output_does_not_keep_a_signal_from_ending_the_command(
    environment: dict[str, str], peer: PtyPeer
) -> None:
    os.set_blocking(peer.fd, False)
    command = [sys.executable, "-m", "penstock.cli", "term", peer.path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as term:
        assert term.stdout is not None
        peer.raw()
        peer.write(b"begin")
        assert term.stdout.read(5) == b"begin"
        deadline = time.monotonic() + 60
        # Write until pipe and port are full, that is, until the port has no room for a while.
        while select.select([], [peer.fd], [], 0.5)[1] and time.monotonic() < deadline:
            os.write(peer.fd, bytes(4096))
        term.send_signal(signal.SIGTERM)
        assert term.wait(60) == 143


def test_closed_output_and_full_disk_end_the_command_without_a_traceback(
    environment: dict[str, str], peer: PtyPeer
) -> None:
    command = [sys.executable, "-m", "penstock.cli", "term", "loop://", "--quiet"]
    end, broken = os.pipe()
    os.close(end)
    with open("/dev/full", "wb") as full:
        for output, code, words in (
            (broken, 141, b""),
            (full.fileno(), 5, b"standard output cannot be written"),
        ):
            done = subprocess.run(
                command,
                input=b"text",
                stdout=output,
                stderr=subprocess.PIPE,
                env=environment,
                timeout=60,
            )
            assert done.returncode == code
            assert words in done.stderr
            assert b"Traceback" not in done.stderr
            assert b"defect" not in done.stderr
    os.close(broken)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("ports", 0),
        ("doctor --json", None),
        ("term loop:// --linger 0", 0),
        ("term /dev/ttyUSB97", 4),
        ("serial serve loop:// --port x", 2),
        ("--version", 0),
    ],
)
def test_closed_standard_streams_do_not_change_the_result(
    environment: dict[str, str], arguments: str, code: int | None, closed: str
) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m penstock.cli {arguments} {closed}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        timeout=60,
    )
    assert code is None or done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"defect" not in done.stderr
