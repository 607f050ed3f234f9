"""External errors: each gives one sentence and the right exit code, and leaves no files behind."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("native_loop")

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE = 1
_CAP_DAC_READ_SEARCH = 2

DEVICE = """
[[device]]
name = "{name}"
port = "{port}"
unit_id = "{unit_id}"
baudrate = 115200
timeout = {timeout}
required = true
"""


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """Write a run.toml with the given port; its output folder is ``out``."""

    def write(
        port: str, *, unit_id: str = "A", extra: str = "", record: str = "", timeout: float = 0.1
    ) -> Path:
        path = tmp_path / "run.toml"
        text = DEVICE.format(name="argon", port=port, unit_id=unit_id, timeout=timeout)
        path.write_text(f'[record]\nout = "out"\nduration = 1\n{record}\n{text}\n{extra}')
        return path

    return write


@pytest.fixture
def refused(penstock: Any, tmp_path: Path) -> Callable[..., str]:
    """Run ``penstock record`` and return its error message."""

    def call(config: Path, code: int, *arguments: str, **options: Any) -> str:
        done = penstock("record", "--config", config, *arguments, **options)
        sentence: str = done.stderr
        assert done.returncode == code, sentence
        assert sentence.startswith("penstock: ")
        assert sentence.count("\n") == 1
        assert not (tmp_path / "out").exists()
        return sentence

    return call


def test_malformed_file_is_refused(config: Any, refused: Any) -> None:
    path = config("/dev/ttyUSB0", record="rat_hz = 3")
    assert 'unknown key "rat_hz"; did you mean rate_hz?' in refused(path, 3)


def test_missing_file_is_refused(refused: Any) -> None:
    assert "nowhere.toml does not exist" in refused(Path("nowhere.toml"), 3)


def test_missing_port_is_refused(config: Any, refused: Any, tmp_path: Path) -> None:
    port = tmp_path / "ttyUSB7"
    sentence = refused(config(str(port)), 4)
    assert f'device "argon": cannot open the port: {port} does not exist; check' in sentence


def test_file_as_port_is_refused(config: Any, refused: Any, tmp_path: Path) -> None:
    port = tmp_path / "notes.txt"
    port.write_text("mine")
    assert str(port) in refused(config(str(port)), 4)
    assert port.read_text() == "mine"


def test_port_held_by_another_program_is_refused(
    config: Any, refused: Any, silent_port: str
) -> None:
    descriptor = os.open(silent_port, os.O_RDWR | os.O_NOCTTY)
    # Root may open a port that is exclusive by TIOCEXCL alone; the lock also stops root.
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_EX)
    fcntl.ioctl(descriptor, termios.TIOCEXCL)
    sentence = refused(config(silent_port), 4)
    os.close(descriptor)
    assert silent_port in sentence
    assert f"in use by process {os.getpid()} (" in sentence


@pytest.fixture
def without_privilege() -> dict[str, Any]:
    """Return options that subject a command to file permissions even if the tests run as root."""
    if os.geteuid() != 0:
        return {}
    libc = ctypes.CDLL(None, use_errno=True)

    def drop() -> None:
        # A capability that is dropped from the bounding set is not regained by exec.
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl")

    return {"preexec_fn": drop}


def test_port_without_permission_is_refused(
    config: Any, refused: Any, silent_port: str, without_privilege: dict[str, Any]
) -> None:
    os.chmod(silent_port, 0)
    sentence = refused(config(silent_port), 4, **without_privilege)
    assert silent_port in sentence
    assert "permission" in sentence
    assert "group" in sentence


def test_silent_device_is_refused(config: Any, refused: Any, silent_port: str) -> None:
    sentence = refused(config(silent_port), 4)
    assert 'device "argon"' in sentence
    assert f"unit A on {silent_port} at 115200 baud" in sentence
    assert "check that it is powered" in sentence


def test_wrong_unit_id_is_refused_with_the_one_that_answers(
    config: Any, run_code: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("C:500")
    # The search gives each letter a tenth of a second, less than a busy machine needs to answer.
    code = (
        "import penstock.cli\n"
        "from penstock.cli._recording import instruments\n"
        "instruments._SEARCH_TIMEOUT = 5\n"
        f"raise SystemExit(penstock.cli.main(['record', {str(config(port, unit_id='B'))!r}]))"
    )
    done = run_code(code)
    assert (done.returncode, done.stderr) == (
        4,
        f'penstock: device "argon": unit id B on {port} does not answer at 115200 baud, but unit '
        'id C does; write unit_id = "C" if that is the one\n',
    )
    assert not (tmp_path / "out").exists()


def test_one_missing_device_of_two_refuses_the_whole_run(
    config: Any, refused: Any, simulator: Any, silent_port: str
) -> None:
    _, (port,) = simulator("A:500")
    extra = DEVICE.format(name="oxygen", port=silent_port, unit_id="A", timeout=0.1)
    assert 'device "oxygen"' in refused(config(port, extra=extra, timeout=30), 4)


def test_refused_run_leaves_the_previous_runs_files(
    penstock: Any, config: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    old = {"samples.csv": b"old\n", "samples.parquet": b"older\n"}
    for name, content in old.items():
        (out / name).write_bytes(content)
    path = config(str(tmp_path / "ttyUSB7"))
    assert penstock("record", "--config", path, "--overwrite").returncode == 4
    assert {file.name: file.read_bytes() for file in out.iterdir()} == old


@pytest.mark.parametrize("name", ["samples.csv", "samples.csv.meta.json", "flow.png"])
def test_existing_file_is_refused(penstock: Any, config: Any, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine")
    done = penstock("record", "--config", config("/dev/null"))
    assert done.returncode == 5
    assert f"out/{name} already exists; add --overwrite" in done.stderr
    assert [(file.name, file.read_text()) for file in out.iterdir()] == [(name, "mine")]


def test_output_folder_without_permission_is_refused(
    config: Any, refused: Any, tmp_path: Path, without_privilege: dict[str, Any]
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    sentence = refused(config("/dev/null"), 5, "--out", "locked/run", **without_privilege)
    assert "cannot write locked/run: no permission in " in sentence
    assert "--out" in sentence


def test_output_folder_below_a_file_is_refused(config: Any, refused: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    sentence = refused(config("/dev/null"), 5, "--out", "notes.txt/run")
    assert "cannot write notes.txt/run: a file stands where a folder is needed" in sentence


def test_output_folder_that_no_file_system_accepts_is_refused(config: Any, refused: Any) -> None:
    assert "cannot write /proc/run" in refused(config("/dev/null"), 5, "--out", "/proc/run")
    assert "File name too long" in refused(config("/dev/null"), 5, "--out", "x" * 300)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(folder)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_keeps_the_recorded_samples(
    penstock: Any, recorded: Any, small_disk: Path
) -> None:
    done = penstock("demo", "--duration", 12, "--rate", 50, "--out", small_disk, "--no-plot")
    assert done.returncode == 5
    assert done.stderr.startswith(f"penstock: cannot write {small_disk}/samples.")
    assert "No space left on device; free some space" in done.stderr
    assert_one_line_a_file(done.stderr)
    # The full disk kept the Parquet file from being finished; one command completes it.
    parquet = small_disk / "samples.parquet"
    if "cannot finish" in done.stderr:
        assert f"run penstock recover {parquet} once there is room" in done.stderr
        assert f"wrote {parquet}.parts" in done.stdout
    remount = ["mount", "-o", "remount,size=1m", str(small_disk)]
    subprocess.run(remount, check=True)
    recovered = penstock("recover", parquet)
    assert recovered.returncode == 0
    assert str(parquet) in recovered.stdout
    assert_kept(recorded(small_disk), done.stdout)


def test_a_disk_that_gets_space_again_has_all_rows(
    penstock: Any, config: Any, start: Any, simulator: Any, small_disk: Path, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    record = 'formats = ["csv", "jsonl"]\nrate_hz = 100'
    path = config(port, timeout=10, record=record)
    path.write_text(path.read_text().replace("duration = 1", ""))
    running = start("record", path, "--out", small_disk / "run", "--no-plot")
    for _ in range(2):
        running.wait_for("No space left on device.*; it is tried again, and the run continues")
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    for _ in range(2):
        running.wait_for(r"penstock: .*/run/samples\.(csv|jsonl) is written again")
    running.process.send_signal(signal.SIGINT)
    code, output, errors = running.finish()
    assert (code, errors) == (130, ""), output
    files = [small_disk / "run" / f"samples.{suffix}" for suffix in ("csv", "jsonl")]
    checked = penstock("verify", *files, "--json")
    for found in json.loads(checked.stdout).values():
        assert (found["problems"], found["devices"]["argon"]["duplicates"]) == (0, 0), found
    # All rows of both: what one had not written waited in memory.
    first, second = (found["devices"] for found in json.loads(checked.stdout).values())
    assert first["argon"]["samples"] == second["argon"]["samples"] > 0


def test_file_size_limit_keeps_the_recorded_samples(
    penstock: Any, recorded: Any, tmp_path: Path
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    done = penstock(
        *("demo", "--duration", 12, "--rate", 50, "--out", "out", "--no-plot"), preexec_fn=limit
    )
    assert done.returncode == 5
    assert "File too large" in done.stderr
    assert "ulimit -f" in done.stderr
    assert_one_line_a_file(done.stderr)
    parquet = tmp_path / "out" / "samples.parquet"
    assert penstock("recover", parquet).returncode == 0
    assert_kept(recorded(tmp_path / "out"), done.stdout)


def assert_one_line_a_file(errors: str) -> None:
    for line in errors.splitlines():
        assert line.startswith("penstock: ")
        assert line.count("samples.csv") + line.count("samples.parquet: ") == 1


def assert_kept(recording: Any, output: str) -> None:
    assert "recorded 4 devices" in output, "there is a summary of what was recorded"
    # A slow machine misses slots, and its files are filled with rows that say so.
    assert len(recording.csv()) > 40
    assert len(recording.parquet()["device"]) > 40


def test_file_without_a_recording_cannot_be_recovered(penstock: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.parquet").write_text("mine")
    done = penstock("recover", "notes.parquet")
    assert done.returncode == 5
    assert done.stderr.startswith("penstock: ")
    assert "notes.parquet" in done.stderr
    assert (tmp_path / "notes.parquet").read_text() == "mine"
    missing = penstock("recover", "nowhere.csv")
    assert (missing.returncode, missing.stdout) == (5, "")
    assert "nowhere.csv does not exist" in missing.stderr


def test_full_disk_is_reported_before_a_port_is_opened(
    config: Any, refused: Any, small_disk: Path
) -> None:
    with contextlib.suppress(OSError):
        (small_disk / "filler").write_bytes(bytes(1 << 20))
    sentence = refused(config("/dev/null"), 5, "--out", str(small_disk / "run"))
    assert f"cannot write {small_disk}/run: the disk is full" in sentence
    assert "free some space" in sentence


def test_overdue_setpoints_are_sent_one_after_another(
    penstock: Any, config: Any, recorded: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    steps = "".join(
        f"[[device.setpoint]]\nat = {at}\nvalue = {value}\n"
        for at, value in ((0, 100), (0.0001, 200), (0.3, 300), (0.3001, 400))
    )
    path = config(port, extra=steps, timeout=30)
    done = penstock("record", "--config", path, "--duration", 3, "--no-plot", "--json")
    assert (done.returncode, done.stderr.count("defect")) == (0, 0), done.stderr
    assert json.loads(done.stdout)["failed_setpoints"] == []
    table = recorded(tmp_path / "out").parquet()
    assert max(table["Mass_Flow_Setpt"]) == 400


def test_refused_setpoints_are_reported_at_the_end(
    penstock: Any, config: Any, recorded: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    step = "[[device.setpoint]]\nat = 0.2\nvalue = 9000\n"
    path = config(port, extra=step, timeout=30)
    done = penstock("record", "--config", path, "--duration", 3, "--no-plot")
    assert done.returncode == 6
    assert "1 setpoint step was not accepted" in done.stderr
    assert "setpoint not accepted: argon, 9000 at 0.2 s: " in done.stdout
    counts = re.search(r"recorded 1 device .*: (\d+) samples, (\d+) late, 0 errors", done.stdout)
    assert counts is not None
    samples, late = map(int, counts.groups())
    assert samples + late == 30
    assert recorded(tmp_path / "out").rows_of_each() == {"argon": samples}


@pytest.mark.parametrize(
    ("package", "arguments", "remedy"),
    [
        ("penstock._core", [], "make build"),
        ("pyarrow", [], "pip install 'penstock[parquet]'"),
        ("matplotlib", [], "--no-plot"),
    ],
)
def test_missing_package_is_reported_before_anything_is_created(
    run_code: Any, tmp_path: Path, package: str, arguments: list[str], remedy: str
) -> None:
    code = (
        "import importlib.util, penstock.cli\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name: None if name == {package!r} else find(name)\n"
        "raise SystemExit(penstock.cli.main(['demo']))"
    )
    done = run_code(code)
    assert done.returncode == 7
    assert package in done.stderr
    assert remedy in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_traceback_is_printed_only_on_demand(
    penstock: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ("record", "--config", "nowhere.toml")
    assert "Traceback" not in penstock(*arguments).stderr
    shown = penstock(*arguments, env={**environment, "PENSTOCK_TRACEBACK": "1"})
    assert shown.stderr.startswith("penstock: configuration file nowhere.toml does not exist")
    assert "Traceback" in shown.stderr


def test_simulator_that_does_not_start_is_reported(run_code: Any, tmp_path: Path) -> None:
    # An executable that cannot start is easier to arrange than one without pseudo-terminals.
    code = (
        "import sys, penstock.cli\n"
        "sys.executable = '/bin/false'\n"
        "raise SystemExit(penstock.cli.main(['demo', '--out', 'out']))"
    )
    done = run_code(code)
    assert done.returncode == 4
    assert done.stderr.startswith("penstock: the simulated instruments did not start")
    assert list(tmp_path.iterdir()) == []
