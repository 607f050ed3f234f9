"""`python -m penstock.sim` as a program that starts it sees it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock.sim

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(penstock.sim.__file__).parents[2])}
COMMAND = [sys.executable, "-m", "penstock.sim"]
BUSES = ["--bus", "A:500,B:100", "--bus", "C:10SLPM", "--baud", "115200", "--noise", "0"]


@contextmanager
def simulator(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def ask(path: str, request: bytes) -> bytes:
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
    try:
        os.write(descriptor, request)
        answer = b""
        while not answer.endswith(b"\r"):
            assert select.select([descriptor], [], [], 20)[0], f"only {answer!r} came"
            answer += os.read(descriptor, 4096)
        return answer
    finally:
        os.close(descriptor)


def test_it_names_its_ports_serves_them_and_ends_with_its_input() -> None:
    with simulator(*BUSES) as (process, ready):
        first, second = ready["buses"]
        assert first["units"] == ["A", "B"]
        assert second["units"] == ["C"]
        assert first["baudrate"] == second["baudrate"] == 115200
        assert ask(first["path"], b"BFPF 5\r") == b"B +100.00 12 SCCM\r"
        assert ask(second["path"], b"CFPF 5\r") == b"C +10.000 7 SLPM\r"
        assert ask(first["path"], b"A\r").startswith(b"A +014.62 +021.89 +000.00")
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    with simulator(*BUSES) as (process, _):
        process.send_signal(number)
        assert process.wait(20) == 0


def test_it_runs_on_without_input_when_told_to() -> None:
    with simulator(*BUSES, "--no-stdin") as (process, ready):
        assert process.stdin is not None
        process.stdin.close()
        assert ask(ready["buses"][0]["path"], b"BLSS\r") == b"B S\r"
        assert process.poll() is None


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_it_ends_with_the_process_that_started_it() -> None:
    # The starter leaves at once without a word; the write end of the simulator's input is ours,
    # so that only the parent's death can end it.
    starter = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
        "print(child.pid, child.stdout.readline(), flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starter, *COMMAND, *BUSES, "--no-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as parent:
        assert parent.stdout is not None
        pid, _, ready = parent.stdout.readline().partition(" ")
        path = json.loads(ready)["buses"][0]["path"]
        descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
        try:
            assert ask(path, b"BLSS\r") == b"B S\r"
            parent.kill()
            # The hang-up on a port that is held open, as the path may soon be somebody else's.
            port = select.poll()
            port.register(descriptor, 0)
            assert port.poll(20_000), f"simulator {pid} is still there"
        finally:
            os.close(descriptor)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--bus", "A500"], "'A500' is not a unit; write ID:FULLSCALE"),
        (["--bus", "A:500,A:100"], "unit ids A, A are not all different"),
        (["--bus", "A:0"], "full scale 0.0 is not between"),
        (["--bus", "A:5", "--baud", "0"], "baud rate 0 is not positive"),
        (["--bus", "A:5", "--tau", "-1"], "time constant -1.0 s is negative"),
        ([], "required: --bus"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str
) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_same_seed_gives_the_same_noise() -> None:
    def readings(seed: str) -> bytes:
        with simulator("--bus", "A:500", "--noise", "0.01", "--seed", seed) as (_, ready):
            path = ready["buses"][0]["path"]
            return b"".join(ask(path, b"ADV 1 5\r") for _ in range(5))

    assert readings("1") == readings("1") != readings("2")
