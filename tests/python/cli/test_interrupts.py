"""Signals in every phase: complete files, a printed summary, and an exit code for the signal.

The command's own output or effects trigger each signal, never a clock.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from penstock.cli._errors import Interrupted
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.simulator import simulated_buses
from penstock.record import RecordError
from penstock.record.view import open_recording

LONG = ("demo", "--duration", "600", "--out", "out", "--no-plot")
# A line of progress in which no device is without a value.
ALL_ANSWERED = r"^(?!.* -[, ]).* samples, "


@pytest.mark.usefixtures("native_loop")
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_signal_during_the_run_completes_the_files(
    start: Any, recorded: Any, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    running = start(*LONG)
    running.wait_for(ALL_ANSWERED)
    running.process.send_signal(number)
    ended, output, errors = running.finish()
    assert (ended, errors) == (code, "")
    counts = recorded(tmp_path / "out").rows_of_each()
    assert sorted(counts) == ["argon", "helium", "nitrogen", "oxygen"]
    assert f"(ended by {number.name}): {sum(counts.values())} samples" in output
    assert "wrote out/samples.parquet" in output


@pytest.mark.usefixtures("native_loop")
def test_signal_before_the_first_sample_leaves_complete_files(
    start: Any, recorded: Any, tmp_path: Path
) -> None:
    running = start(*LONG)
    running.wait_for(r" 0 samples, ")
    running.process.send_signal(signal.SIGINT)
    code, _, errors = running.finish()
    assert (code, errors) == (130, "")
    recorded(tmp_path / "out").rows_of_each()


@pytest.mark.usefixtures("native_loop")
def test_signal_while_an_instrument_is_opened_leaves_no_files(
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
def test_signal_while_the_simulator_starts_ends_the_simulator(
    environment: dict[str, str], tmp_path: Path
) -> None:
    # A simulator that reports its start and never becomes ready.
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
def test_signal_while_the_plot_is_written_tears_no_file(
    run_code: Any, recorded: Any, tmp_path: Path
) -> None:
    code = (
        "import os, signal, penstock.cli\n"
        "from penstock import _durable_files\n"
        "replace = os.replace\n"
        "def interrupted(source, target):\n"
        "    if str(target).endswith('flow.svg'):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    replace(source, target)\n"
        "os.replace = interrupted\n"
        "raise SystemExit(penstock.cli.main("
        "['demo', '--duration', '0.5', '--out', 'out', '--overwrite']))"
    )
    (tmp_path / "out").mkdir()
    done = run_code(code)
    assert (done.returncode, done.stderr) == (130, "")
    counts = recorded(tmp_path / "out").rows_of_each()
    assert f"{sum(counts.values())} samples" in done.stdout
    assert [name for name in os.listdir(tmp_path / "out") if "flow" in name] == []


@pytest.mark.usefixtures("native_loop")
def test_signal_while_the_plot_is_drawn_is_deferred(
    run_code: Any, recorded: Any, tmp_path: Path
) -> None:
    code = (
        "import os, signal, sys, penstock.cli\n"
        "class Meddler:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'matplotlib.figure':\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Meddler())\n"
        "code = penstock.cli.main(['demo', '--duration', '2', '--out', 'out'])\n"
        "print('matplotlib.backends.backend_svg' in sys.modules)\n"
        "raise SystemExit(code)"
    )
    done = run_code(code)
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout.endswith("True\n")
    assert sum(recorded(tmp_path / "out").rows_of_each().values()) > 0
    assert not (tmp_path / "out" / "flow.svg").exists()


@pytest.mark.usefixtures("native_loop")
def test_repeated_signals_tear_no_file(start: Any, recorded: Any, tmp_path: Path) -> None:
    running = start(*LONG)
    running.wait_for(r"[1-9][0-9]* samples")
    while running.process.poll() is None:
        running.process.send_signal(signal.SIGINT)
    assert running.process.returncode != 0
    assert sum(recorded(tmp_path / "out").rows_of_each().values()) > 0


@pytest.mark.usefixtures("native_loop")
def test_killed_run_is_recovered_up_to_its_last_flush(
    start: Any, penstock: Any, recorded: Any, tmp_path: Path
) -> None:
    files = [tmp_path / "out" / name for name in ("samples.parquet", "samples.csv")]

    def rows(file: Path) -> int:
        """The rows of the file, events included; also while it grows."""
        try:
            return open_recording(file).to_arrow().num_rows  # type: ignore[no-any-return]
        except RecordError:
            return 0

    running = start(*LONG)
    flushed = [0, 0]
    while not all(flushed):
        running.wait_for(r"[1-9][0-9]* samples")
        flushed = [rows(file) for file in files]
    running.process.kill()
    assert running.finish()[0] == -signal.SIGKILL
    for file in files:
        done = penstock("recover", file)
        assert done.returncode == 0, done.stderr
    # Each file by its own rows: a kill may come between the writes of one batch to both.
    assert pyarrow.parquet.read_table(files[0]).num_rows >= flushed[0]
    assert files[1].read_bytes().count(b"\n") - 1 >= flushed[1]
    assert recorded(tmp_path / "out").csv()


@pytest.mark.usefixtures("native_loop")
def test_ctrl_c_at_a_terminal_ends_the_run_but_not_its_instruments(
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
        pass  # a terminal reports the exit of its last user this way
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


def test_signal_outside_the_loop_raises_in_the_running_code(interrupts: Interrupts) -> None:
    with pytest.raises(Interrupted) as caught:
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.signum == interrupts.signum == signal.SIGTERM


def test_signal_in_a_destructor_is_recorded_and_raised_later(
    interrupts: Interrupts, capsys: pytest.CaptureFixture[str]
) -> None:
    class Dying:
        def __del__(self) -> None:
            self.release()

        def release(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    Dying()
    assert interrupts.signum == signal.SIGTERM
    assert capsys.readouterr().err == ""
    with pytest.raises(Interrupted):
        interrupts.raise_if_received()
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGINT)


def test_other_error_in_a_destructor_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __del__(self) -> None:
            raise ValueError("as before")

    reported: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(str(args.exc_value)))
    before = sys.unraisablehook
    with Interrupts().installed():
        Failing()
    assert reported == ["as before"]
    assert sys.unraisablehook is before


def test_signal_while_the_simulator_is_spawned_leaves_no_process(
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
        raise AssertionError("the signal arrived before")
    assert [process.returncode for process in made] == [0]


def test_deferred_signal_is_recorded_and_raised_later(interrupts: Interrupts) -> None:
    with interrupts.deferred():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert interrupts.signum == signal.SIGINT
    with pytest.raises(Interrupted):
        interrupts.raise_if_received()


@pytest.mark.parametrize("before", [False, True], ids=["inside", "before"])
def test_run_is_asked_to_stop_only_once(interrupts: Interrupts, before: bool) -> None:
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


def test_ignored_signal_stays_ignored_and_handlers_are_restored() -> None:
    previous: Callable[..., Any] | int | None = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        with Interrupts().installed():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not terminate
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        signal.signal(signal.SIGHUP, previous)
