"""Safe states of a ``run.toml``: at the end of a run, after an alarm, and after a SIGKILL."""

from __future__ import annotations

import csv
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli._errors import CommandError
from penstock.cli._recording.config import parse_config
from penstock.cli._recording.plan import SafeStatePlan

ZERO = 'safe_state = { setpoint = 0, unit = "SCCM" }'


def _configure(folder: Path, port: str, *lines: str, timeout: float = 10) -> Path:
    path = folder / "run.toml"
    path.write_text(
        '[record]\nrate_hz = 20\nout = "out"\nformats = ["csv"]\n'
        f'[[device]]\nname = "argon"\nport = "{port}"\nbaudrate = 115200\ntimeout = {timeout}\n'
        + "\n".join(lines)
        + "\n[[device.setpoint]]\nat = 0\nvalue = 300\n"
    )
    return path


@pytest.fixture
def setpoint(penstock: Any) -> Callable[[str], float]:
    """What an instrument says that its setpoint is."""

    def read(port: str) -> float:
        done = penstock("alicat", "read", port, "--baud", "115200", "--timeout", 10, "--json")
        return float(json.loads(done.stdout)["Mass_Flow_Setpt"])

    return read


def _events(folder: Path, kind: str) -> list[str]:
    found: list[str] = []
    for path in sorted((folder / "out").glob("samples*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            found += [row["message"] for row in csv.DictReader(file) if row["event"] == kind]
    return found


@pytest.mark.usefixtures("native_loop")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_in_the_safe_state(
    start: Any, simulator: Any, setpoint: Any, tmp_path: Path, signum: int
) -> None:
    _, (port,) = simulator("A:500")
    _configure(tmp_path, port, ZERO)
    running = start("record", "run.toml", "--no-plot")
    running.wait_for("of 300.00")
    running.process.send_signal(signum)
    code, output, errors = running.finish()
    assert (code, errors) == (128 + signum, "")
    assert "  safe state: argon: its setpoint is 0 SCCM" in output
    assert setpoint(port) == 0


@pytest.mark.usefixtures("native_loop")
def test_the_end_of_its_time_does_so_too_and_watch_does_not(
    penstock: Any, simulator: Any, setpoint: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    _configure(tmp_path, port, 'safe_state = { setpoint = 20, unit = "SCCM", ramp = 500 }')
    done = penstock("record", "run.toml", "--no-plot", "--duration", 2, "--json")
    assert done.returncode == 0, done.stderr
    expected = "argon: its setpoint is 20 SCCM, reached by 500 SCCM a second"
    assert json.loads(done.stdout)["safe_states"] == [expected]
    assert setpoint(port) == 20
    penstock("alicat", "set", port, "70", "--baud", "115200", "--timeout", 10)
    assert penstock("watch", "run.toml", "--duration", 1, "--json").returncode == 0
    assert setpoint(port) == 70


@pytest.mark.usefixtures("native_loop")
def test_after_sigkill_the_command_brings_the_state(
    penstock: Any, start: Any, simulator: Any, setpoint: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    _configure(tmp_path, port, ZERO)
    running = start("record", "run.toml", "--no-plot")
    running.wait_for("of 300.00")
    running.process.kill()
    running.finish()
    assert setpoint(port) == 300
    done = penstock("safe", "run.toml", "--timeout", 50)
    assert (done.returncode, done.stdout) == (0, "argon: its setpoint is 0 SCCM\n"), done.stderr
    assert setpoint(port) == 0


@pytest.mark.usefixtures("native_loop")
def test_an_instrument_that_is_lost_at_the_end_is_asked_until_it_is_back(
    start: Any, simulator: Any, setpoint: Any, tmp_path: Path
) -> None:
    bus, (port,) = simulator("A:500")
    _configure(tmp_path, port, ZERO, timeout=0.5)
    running = start("record", "run.toml", "--no-plot")
    running.wait_for("of 300.00")
    bus.send_signal(signal.SIGSTOP)
    running.process.send_signal(signal.SIGTERM)
    running.wait_for("safe state: asking argon")
    bus.send_signal(signal.SIGCONT)
    code, output, _ = running.finish()
    assert (code, "argon: its setpoint is 0 SCCM" in output) == (143, True), output
    assert setpoint(port) == 0


@pytest.mark.usefixtures("native_loop")
def test_a_lost_port_is_told_and_is_an_error(start: Any, simulator: Any, tmp_path: Path) -> None:
    bus, (port,) = simulator("A:500")
    _configure(tmp_path, port, ZERO, timeout=0.5)
    running = start("record", "run.toml", "--no-plot")
    running.wait_for("of 300.00")
    bus.kill()
    bus.wait()
    running.process.send_signal(signal.SIGTERM)
    code, output, errors = running.finish()
    assert (code, "safe state: argon: NOT reached: " in output) == (6, True), output
    assert "argon did not reach the safe state" in errors


@pytest.mark.usefixtures("native_loop")
@pytest.mark.parametrize(
    ("state", "words", "left"),
    [
        ('{ setpoint = 10, unit = "SCCM", on = ["alarm"] }', "its setpoint is 10 SCCM", 10),
        ("{ hold = true, on = ['alarm'] }", "its valves are held where they are", 300),
    ],
)
def test_an_alarm_brings_the_safe_state_and_later_steps_are_not_sent(
    start: Any, simulator: Any, setpoint: Any, tmp_path: Path, state: str, words: str, left: float
) -> None:
    _, (port,) = simulator("A:500")
    limit = '[[device.limit]]\nfield = "Mass_Flow"\nhigh = 200'
    path = _configure(tmp_path, port, f"safe_state = {state}", limit)
    path.write_text(path.read_text() + "[[device.setpoint]]\nat = 6\nvalue = 400\n")
    running = start("record", "run.toml", "--no-plot", "--duration", "8")
    code, output, _ = running.finish()
    assert (code, words in output) == (6, True), output
    assert "argon, 400 at 6 s: not sent: an alarm has brought it into its safe state" in output
    assert _events(tmp_path, "safe_state") == [words]
    assert _events(tmp_path, "alarm")
    assert setpoint(port) == left


@pytest.mark.usefixtures("native_loop")
@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ('{ setpoint = 0, unit = "SLPM" }', "SLPM"),
        ('{ setpoint = 5000, unit = "SCCM" }', "5000"),
        ('{ setpoint = -1, unit = "SCCM" }', "-1"),
    ],
)
def test_a_state_that_the_instrument_cannot_take_is_refused_at_the_start(
    penstock: Any, simulator: Any, tmp_path: Path, check: tuple[str, ...], state: str, words: str
) -> None:
    _, (port,) = simulator("A:500")
    _configure(tmp_path, port, f"safe_state = {state}")
    done = penstock("record", "run.toml", "--no-plot", *check)
    assert done.returncode == 4
    assert 'device "argon": its safe_state: ' in done.stderr and words in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("native_loop")
def test_a_check_names_the_instruments_and_changes_nothing(
    penstock: Any, simulator: Any, setpoint: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    _configure(tmp_path, port, ZERO)
    done = penstock("record", "run.toml", "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "argon: model " in done.stdout and "Mass_Flow in SCCM" in done.stdout
    assert "ready to record into out" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]
    assert setpoint(port) == 0
    slow = tmp_path / "run.toml"
    slow.write_text(slow.read_text().replace("rate_hz = 20", "rate_hz = 1000"))
    assert "times the time that there is" in penstock("record", "run.toml", "--check").stdout
    _configure(tmp_path, str(tmp_path / "nowhere"), ZERO)
    done = penstock("record", "run.toml", "--check")
    assert (done.returncode, "argon did not answer" in done.stderr) == (4, True)


DEVICE = '[[device]]\nname = "argon"\nport = "/dev/ttyUSB0"\n'


def test_the_forms_of_a_safe_state_are_read() -> None:
    for text, plan in (
        (ZERO, SafeStatePlan(0.0, "SCCM")),
        ('safe_state = { setpoint = 5, unit = "SLPM", ramp = 2 }', SafeStatePlan(5.0, "SLPM", 2.0)),
        ('safe_state = { hold = true, on = ["exit"] }', SafeStatePlan(on_alarm=False)),
    ):
        (device,) = parse_config((DEVICE + text).encode(), "run.toml").devices
        assert device.safe_state == plan


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("safe_state = { setpoint = 0 }", "the key unit is missing"),
        ('safe_state = { unit = "SCCM" }', "the key setpoint is missing"),
        (
            "safe_state = { hold = true, setpoint = 0 }",
            "setpoint = 0 is given together with hold = true",
        ),
        ("safe_state = { hold = 1 }", "hold = 1 is neither true nor false"),
        ('safe_state = { hold = true, on = ["end"] }', '"end"'),
        ('safe_state = { setpoint = 0, unit = "SCCM", ramp = 0 }', "ramp = 0 is out of range"),
        ('protocol = "modbus-rtu"\nsafe_state = { hold = true }', "is for the text protocol"),
        ('[[device.limit]]\nfield = "F"\nhigh = 1\nsafe = ["oxygen"]', "which is not a device"),
        ('[[device.limit]]\nfield = "F"\nhigh = 1\nsafe = ["argon"]', "has no safe_state"),
    ],
)
def test_a_safe_state_that_means_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_config((DEVICE + text).encode(), "run.toml")
    assert (caught.value.code, words in str(caught.value)) == (3, True), caught.value


def test_a_file_without_safe_states_has_none_to_bring(penstock: Any, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(DEVICE)
    done = penstock("safe", "run.toml")
    assert (done.returncode, "has no safe_state" in done.stderr) == (3, True)
