"""The measured processes: started on their core, awaited until ready, stopped by closing stdin."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.measure.affinity import children_on
from benchmarks.measure.builds import placed

EXIT_UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h: the program cannot do what was asked here
READY_TIMEOUT = 20.0
END_TIMEOUT = 10.0
DEATH_GRACE = 1.0


class Unavailable(Exception):
    """The contender does not offer what is measured; the message gives the reason."""


class Failed(Exception):
    """The contender failed during its measurement; the message gives the reason."""


@dataclass(frozen=True)
class Server:
    """A running server: its process id and the line that it printed when it was ready."""

    pid: int
    ready_line: str


@contextmanager
def server(
    argv: Sequence[str], core: int | None, *, ready_timeout: float = READY_TIMEOUT
) -> Iterator[Server]:
    """Run a server on ``core`` in the block; afterwards close its standard input to stop it.

    With None it may run on any core.

    Raises:
        Unavailable: if its program is not there, or ended with exit code 69 before it was ready.
        Failed: if it ended otherwise, or printed nothing for ``ready_timeout`` seconds.
    """
    command, environment = placed(argv)
    with tempfile.TemporaryFile() as errors:
        try:
            with children_on(core):
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                )
        except FileNotFoundError as error:
            raise Unavailable(f"not built: {os.path.basename(argv[0])}") from error
        try:
            line = _ready_line(process, ready_timeout)
            if line is None:
                if not _has_ended(process, END_TIMEOUT):
                    raise Failed("the server closed its standard output before it was ready")
                reason = _last_line(errors.fileno())
                if process.returncode == EXIT_UNAVAILABLE:
                    raise Unavailable(reason)
                raise Failed(f"the server {_ending(process.returncode)}: {reason}")
            try:
                yield Server(process.pid, line)
            except Failed as error:
                # If the server has died, the error of the client is only a symptom.
                if not _has_ended(process, DEATH_GRACE):
                    raise
                reason = _last_line(errors.fileno())
                raise Failed(f"the server {_ending(process.returncode)}: {reason}") from error
        finally:
            _end(process)


def run(
    argv: Sequence[str],
    core: int | None,
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program on ``core`` (None: on any core) to its end and return its standard output.

    Args:
        environment: additional variables.

    Raises:
        Unavailable: with the last line of its standard error, if it ends with exit code 69.
        Failed: if it ends with another exit code than 0 or takes longer than ``timeout`` seconds.
    """
    command, inherited = placed(argv)
    with children_on(core):
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**inherited, **(environment or {})},
        )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise Failed(f"{os.path.basename(argv[0])} did not end within {timeout:g} s") from error
    if process.returncode == EXIT_UNAVAILABLE and errors.strip():
        raise Unavailable(errors.strip().splitlines()[-1])
    if process.returncode != 0:
        raise Failed(errors.strip() or f"{os.path.basename(argv[0])} {_ending(process.returncode)}")
    return output


def figures_of(argv: Sequence[str], core: int | None, *, timeout: float) -> Any:
    """The figures that a program prints as JSON; arguments and errors are those of :func:`run`."""
    return json.loads(run(argv, core, timeout=timeout))


@dataclass(frozen=True)
class Launch:
    """The cost of a process from start to end."""

    seconds: float
    cpu_seconds: float


def launch(argv: Sequence[str], core: int) -> Launch:
    """Start a program on ``core`` and wait for its end.

    Raises:
        Unavailable: with the last line of its standard error, if its exit code is not 0.
    """
    command, environment = placed(argv)
    with tempfile.TemporaryFile() as errors:
        # posix_spawn and wait4 instead of subprocess: wait4 returns the CPU time of this child.
        actions = [(os.POSIX_SPAWN_DUP2, errors.fileno(), 2)]
        with children_on(core):
            begin = time.perf_counter()
            pid = os.posix_spawnp(command[0], command, environment, file_actions=actions)
            _, status, usage = os.wait4(pid, 0)
            seconds = time.perf_counter() - begin
        if status != 0:
            raise Unavailable(_last_line(errors.fileno()))
    return Launch(seconds, usage.ru_utime + usage.ru_stime)


def _ready_line(process: subprocess.Popen[bytes], timeout: float) -> str | None:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout):
            raise Failed(f"the server was not ready within {timeout:g} s")
    line = process.stdout.readline()
    return line.decode().strip() if line else None


def _has_ended(process: subprocess.Popen[bytes], timeout: float) -> bool:
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(END_TIMEOUT)
    except subprocess.TimeoutExpired:
        # The figures were taken before; they stay valid if the server does not end.
        process.kill()
        process.wait()
    process.stdout.close()


def _last_line(fd: int) -> str:
    size = os.fstat(fd).st_size
    tail = os.pread(fd, 4096, max(0, size - 4096)).decode(errors="replace").strip()
    return tail.splitlines()[-1] if tail else "it said nothing"


def _ending(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
