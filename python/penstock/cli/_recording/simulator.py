"""The demo's instruments: ``python -m penstock.sim`` in a separate process."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._interrupts import Interrupts

_READY_SECONDS = 30.0
_LEAVE_SECONDS = 5.0


@contextmanager
def simulated_buses(
    buses: Sequence[str], *, baudrate: int, interrupts: Interrupts
) -> Iterator[tuple[str, ...]]:
    """Run a simulator with ``buses`` (``"A:500,B:100"``: unit id and full scale in SCCM).

    Yields the ports' paths in the order of ``buses``. A signal is deferred while the simulator
    starts or exits, because it could leave the process running. The simulator has its own session,
    so a terminal's Ctrl-C reaches only the recorder, which can then finish its polls. The simulator
    exits when its standard input is closed, so it also exits if this process is killed.
    """
    command = [sys.executable, "-m", "penstock.sim", "--baud", str(baudrate)]
    for bus in buses:
        command += ["--bus", bus]
    process = None
    with tempfile.TemporaryFile() as complaints:
        try:
            with interrupts.deferred():
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    start_new_session=True,
                )
            interrupts.raise_if_received()
            line = _first_line(process)
            try:
                paths = tuple(str(bus["path"]) for bus in json.loads(line)["buses"])
            except (ValueError, KeyError, TypeError) as error:
                complaints.seek(0)
                words = complaints.read().decode(errors="replace").strip().splitlines()
                raise CommandError(
                    "the simulated instruments did not start: "
                    f"{words[-1] if words else 'no ready line within 30 s'}; "
                    "run `penstock sim --help` to see whether the simulator works",
                    ExitCode.DEVICE,
                ) from error
            yield paths
        finally:
            with interrupts.deferred():
                if process is not None:
                    _end(process)


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    """Return the first output line, or a part of it if the process exited or took too long."""
    assert process.stdout is not None
    line = b""
    deadline = time.monotonic() + _READY_SECONDS
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
        chunk = process.stdout.read1() if ready else b""  # type: ignore[attr-defined]
        if not chunk:
            break
        line += chunk
    return line


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(_LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        process.stdout.close()


def run_simulator(arguments: list[str]) -> int:
    """Run ``penstock sim``: pass ``arguments`` to the simulator's own command line."""
    from penstock.sim.__main__ import main

    try:
        return main(arguments, prog="penstock sim")
    except SystemExit as leaving:
        # Its argparse has printed help or an error and exits by raising.
        return leaving.code if isinstance(leaving.code, int) else ExitCode.USAGE
