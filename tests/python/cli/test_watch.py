"""``penstock watch``: live values, no files."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("native_loop")


def configured(folder: Path, port: str) -> Path:
    path = folder / "run.toml"
    path.write_text(
        f"""
        [record]
        rate_hz = 20
        [[device]]
        name = "fuel"
        port = "{port}"
        baudrate = 115200
        timeout = 10
        rate_hz = 40
        [[device.setpoint]]
        at = 0
        value = 250
        """
    )
    return path


def test_watch_prints_values_writes_nothing_and_sends_no_setpoint(
    penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    configured(tmp_path, port)
    done = penstock("watch", "run.toml", "--duration", 3, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    last = json.loads(done.stdout.splitlines()[-1])
    fuel = last["devices"]["fuel"]
    assert (fuel["quantity"], fuel["unit"], fuel["error"]) == ("Mass_Flow", "SCCM", None)
    assert fuel["setpoint"] == 0
    assert fuel["samples"] + fuel["late"] == 120  # its own rate, not the run's
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


def test_ctrl_c_is_the_usual_end_of_watching(start: Any, simulator: Any, tmp_path: Path) -> None:
    _, (port,) = simulator("A:500")
    configured(tmp_path, port)
    running = start("watch", "run.toml")
    running.wait_for(r"fuel -?[0-9.]+ of")
    running.process.send_signal(signal.SIGINT)
    code, _, errors = running.finish()
    assert (code, errors) == (0, "")
