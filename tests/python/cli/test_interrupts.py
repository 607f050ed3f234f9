"""Signals at every moment: the files are complete, the summary is told, the code names the signal.

The moments are taken from what the command itself has printed or done, never from a clock.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.errors import Interrupted
from penstock.cli.interrupts import Interrupts
from penstock.cli.simulator import simulated_buses

LONG = ("demo", "--duration", "600", "--out", "out", "--no-plot")


@pytest.mark.usefixtures("native_loop")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_signal_during_the_run(
    start: Any, recorded: Any, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    running = start(*LONG)
    running.wait_for(r"[1-9][0-9]* samples")
    running.process.send_signal(number)
    ended, output, errors = running.finish()
    assert (ended, errors) == (code, "")
    counts = recorded(tmp_path / "out").rows_of_each()
    assert sorted(counts) == ["argon", "helium", "nitrogen", "oxygen"]
    assert f"(ended by {number.name}): {sum(counts.values())} samples" in output
    assert "wrote out/samples.parquet" in output


@pytest.mark.usefixtures("native_loop")
def test_a_signal_before_the_first_sample(start: Any, recorded: Any, tmp_path: Path) -> None:
    running = start(*LONG)
    running.wait_for(r" 0 samples, ")
    running.process.send_signal(signal.SIGINT)
    code, _, errors = running.finish()
    assert (code, errors) == (130, "")
    recorded(tmp_path / "out").rows_of_each()


@pytest.mark.usefixtures("native_loop")
def test_a_signal_while_an_instrument_is_being_opened(
    start: Any, silent_port: str, tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text(
        f'[record]\nout = "out"\n[[device]]\nname = "a"\nport = "{silent_port}"\ntimeout = 60\n'
    )
    running = start("record", "--config", "run.toml")
    running.wait_for(r"opening a: ")
    running.process.send_signal(signal.SIGINT)
    code, _, errors = running.finish()
    assert (code, errors) == (130, "")
    assert not (tmp_path / "out").exists(), "a run that did not begin leaves nothing"


@pytest.mark.usefixtures("native_loop")
def test_a_signal_while_the_simulator_starts(environment: dict[str, str], tmp_path: Path) -> None:
    # A simulator that never gets ready, and says when it has been started.
    sleeper = tmp_path / "sleeper"
    sleeper.write_text(f"#!/bin/sh\necho > {tmp_path}/started\nexec cat\n")
    sleeper.chmod(0o755)
    os.mkfifo(tmp_path / "started")
    code = (
        "import sys, penstock.cli\n"
        f"sys.executable = {str(sleeper)!r}\n"
        "raise SystemExit(penstock.cli.main(['demo', '--out', 'out']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    (tmp_path / "started").read_text()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "", "")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("native_loop")
def test_a_signal_while_the_plot_is_written(start: Any, recorded: Any, tmp_path: Path) -> None:
    # A pipe in the place of the picture holds its writing up until the signal comes.
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / ".flow.svg.part")
    running = start("demo", "--duration", "0.5", "--out", "out", "--overwrite")
    running.wait_for(r"^drawing ")
    running.process.send_signal(signal.SIGINT)
    code, output, errors = running.finish()
    assert (code, errors) == (130, "")
    counts = recorded(tmp_path / "out").rows_of_each()
    assert f"{sum(counts.values())} samples" in output
    assert not (tmp_path / "out" / "flow.svg").exists()


@pytest.mark.usefixtures("native_loop")
def test_a_signal_while_the_plot_is_drawn_waits_until_it_is(
    environment: dict[str, str], recorded: Any, tmp_path: Path
) -> None:
    code = (
        "import os, signal, sys, penstock.cli\n"
        "class Meddler:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'matplotlib.figure':\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Meddler())\n"
        "code = penstock.cli.main(['demo', '--duration', '0.5', '--out', 'out'])\n"
        "print('matplotlib.backends.backend_svg' in sys.modules)\n"
        "raise SystemExit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout.endswith("True\n")
    assert sum(recorded(tmp_path / "out").rows_of_each().values()) > 0
    assert not (tmp_path / "out" / "flow.svg").exists()


@pytest.mark.usefixtures("native_loop")
def test_signals_without_end_tear_no_file(start: Any, recorded: Any, tmp_path: Path) -> None:
    running = start(*LONG)
    running.wait_for(r"[1-9][0-9]* samples")
    while running.process.poll() is None:
        running.process.send_signal(signal.SIGINT)
    assert running.process.returncode != 0
    assert sum(recorded(tmp_path / "out").rows_of_each().values()) > 0


@pytest.mark.usefixtures("native_loop")
def test_a_killed_run_is_recovered_up_to_its_last_flush(
    start: Any, penstock: Any, recorded: Any, tmp_path: Path
) -> None:
    running = start(*LONG)
    flushed = 0
    while not flushed:
        running.wait_for(r"[1-9][0-9]* samples")
        flushed = (tmp_path / "out" / "samples.csv").read_bytes().count(b"\n") - 1
    running.process.kill()
    assert running.finish()[0] == -signal.SIGKILL
    for name in ("samples.parquet", "samples.csv"):
        done = penstock("record", "--recover", tmp_path / "out" / name)
        assert done.returncode == 0, done.stderr
    recording = recorded(tmp_path / "out")
    assert len(recording.csv()) >= flushed
    assert len(recording.parquet()["device"]) >= flushed


@pytest.mark.usefixtures("native_loop")
def test_ctrl_c_typed_at_a_terminal_ends_the_run_not_its_instruments(
    environment: dict[str, str], recorded: Any, tmp_path: Path
) -> None:
    master, slave = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", *LONG],
        cwd=tmp_path,
        env={**environment, "TERM": "dumb"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    os.close(slave)
    text = b""
    typed = False
    try:
        while chunk := os.read(master, 65536):
            text += chunk
            if not typed and re.search(rb"[1-9][0-9]* samples", text):
                os.write(master, b"\x03")
                typed = True
    except OSError:
        pass  # how a terminal tells that its last user has gone
    os.close(master)
    assert process.wait(timeout=60) == 130, text.decode()
    assert typed
    assert b" 0 errors" in text[text.index(b"ended by SIGINT") :]
    table = recorded(tmp_path / "out").parquet()
    assert set(table["error"]) == {None}


@pytest.fixture
def interrupts() -> Any:
    state = Interrupts()
    with state.installed():
        yield state


def test_outside_the_loop_a_signal_raises_where_the_program_is(interrupts: Interrupts) -> None:
    with pytest.raises(Interrupted) as caught:
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.signum == interrupts.signum == signal.SIGTERM


def test_a_signal_in_a_destructor_raises_after_it(interrupts: Interrupts) -> None:
    class Dying:
        def __del__(self) -> None:
            self.let_go()

        def let_go(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted) as caught:
        Dying()
        time.sleep(60)
    assert caught.value.signum == signal.SIGTERM


def test_a_signal_while_the_simulator_is_made_leaves_no_process(
    interrupts: Interrupts, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    with (
        pytest.raises(Interrupted),
        simulated_buses(["A:500"], baudrate=115_200, interrupts=interrupts),
    ):
        raise AssertionError("the signal has come before")
    assert [process.returncode for process in made] == [0]


def test_a_deferred_signal_is_noted_and_raises_later(interrupts: Interrupts) -> None:
    with interrupts.deferred():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert interrupts.signum == signal.SIGINT
    with pytest.raises(Interrupted):
        interrupts.raise_if_received()


@pytest.mark.parametrize("before", [False, True], ids=["inside", "before"])
def test_the_run_is_asked_to_stop_once(interrupts: Interrupts, before: bool) -> None:
    import asyncio

    async def run() -> int:
        stopped = asyncio.Event()
        calls = []

        def stop() -> None:
            calls.append(1)
            stopped.set()

        if before:
            signal.raise_signal(signal.SIGINT)
        with interrupts.stopping(stop):
            signal.raise_signal(signal.SIGINT)
            await stopped.wait()
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)
        return len(calls)

    with interrupts.deferred():
        assert asyncio.run(run()) == 1


def test_an_ignored_signal_stays_ignored_and_handlers_come_back() -> None:
    previous: Callable[..., Any] | int | None = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        with Interrupts().installed():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not terminate
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        signal.signal(signal.SIGHUP, previous)
