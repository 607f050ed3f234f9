"""``--metrics`` of a recording, as Prometheus reads it."""

from __future__ import annotations

import math
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from penstock.cli import main
from penstock.cli._dash.grafana_sources import SOURCES
from penstock.cli._errors import CommandError
from penstock.cli._metrics_endpoint import MetricsEndpoint
from penstock.cli._serve.metrics import SharedCounters, metrics_page
from penstock.record import (
    AcquisitionSummary,
    ColumnBuffer,
    DeviceSummary,
    Field,
    RecordSchema,
    SampleBatch,
    SinkSummary,
)
from penstock.record.metrics_text import LastValues, recording_metrics
from tests.python.integration.prometheus import prometheus
from tests.python.record.batches import NOON_NS

LINE = re.compile(r"(penstock_\w+)(?:\{(.*)\})? (\S+)")


def page_of(*rows: tuple[str, float | None]) -> str:
    """The page behind rows of devices; a row without a value is a failed poll."""
    schema = RecordSchema((Field("Mass_Flow", "float", "SCCM"), Field("Gas", "text")))
    last = LastValues()
    for number, (device, value) in enumerate(rows):
        buffer = ColumnBuffer(schema)
        moment = NOON_NS + number * 10**9
        values = {} if value is None else {"Mass_Flow": value, "Gas": "N2"}
        error = "TimeoutError: no reply" if value is None else None
        buffer.append_row(device, "A", moment, moment, 0, 4_000_000, values, "", error)
        anyio.run(last.write_batch, SampleBatch.from_buffer(buffer))
    summary = AcquisitionSummary(datetime.now(UTC))
    summary.devices["fuel"] = DeviceSummary(samples_emitted=5, errors=2, repeated=1)
    summary.sinks['a "quoted" \\ name'] = SinkSummary(rows_written=7)
    return recording_metrics(summary, last)


def samples(page: str) -> dict[str, str]:
    return {
        f"{found[1]} {found[2] or ''}".strip(): found[3]
        for line in page.splitlines()
        if (found := LINE.fullmatch(line))
    }


def test_the_page_has_last_values_and_counts() -> None:
    page = page_of(("fuel", 1.5), ("air", 2.0), ("fuel", 2.5), ("air", None))
    found = samples(page)
    assert found['penstock_field_value device="fuel",field="Mass_Flow",unit="SCCM"'] == "2.5"
    assert not [name for name in found if "field_value" in name and "air" in name]
    assert found['penstock_device_up device="fuel"'] == "1.0"
    assert found['penstock_device_up device="air"'] == "0.0"
    assert float(found['penstock_last_poll_timestamp_seconds device="air"']) == NOON_NS / 1e9 + 3
    assert found['penstock_latency_seconds device="fuel"'] == "0.004"
    assert found['penstock_errors_total device="fuel"'] == "3"
    assert found[r'penstock_sink_rows_written_total sink="a \"quoted\" \\ name"'] == "7"
    assert page.endswith("\n")
    assert "\r" not in page


def test_two_sinks_of_one_server_are_one_series() -> None:
    sinks: Any = [
        SimpleNamespace(server="influx://lab", trouble=away, rows_waiting=3, rows_refused=refused)
        for away, refused in (("away", 1), (None, 2))
    ]
    found = samples(recording_metrics(AcquisitionSummary(datetime.now(UTC)), LastValues(), sinks))
    assert found['penstock_sink_up server="influx://lab"'] == "0.0"
    assert found['penstock_spool_rows server="influx://lab"'] == "6"
    assert found['penstock_refused_rows_total server="influx://lab"'] == "3"


def test_the_head_of_the_page_is_that_of_the_page() -> None:
    endpoint = MetricsEndpoint("127.0.0.1:0", lambda: "penstock_x 1\n")
    try:
        asked = urllib.request.Request(endpoint.place, method="HEAD")
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert (answer.status, answer.headers["Content-Length"]) == (200, "13")
            assert answer.read() == b""
    finally:
        endpoint.close()


def test_the_socket_of_another_recorder_is_not_taken_and_that_of_a_killed_one_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metrics.sock"

    def page_there() -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(path))
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            return client.makefile("rb").read().partition(b"\r\n\r\n")[2]

    first = MetricsEndpoint(f"unix:{path}", lambda: "penstock_x 1\n")
    try:
        with pytest.raises(CommandError, match="another process listens there; choose another"):
            MetricsEndpoint(f"unix:{path}", lambda: "penstock_x 2\n")
        assert page_there() == b"penstock_x 1\n"
    finally:
        first.close()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    second = MetricsEndpoint(f"unix:{path}", lambda: "penstock_x 2\n")
    try:
        assert page_there() == b"penstock_x 2\n"
    finally:
        second.close()
    path.write_text("mine")
    with pytest.raises(CommandError, match="is not a socket"):
        MetricsEndpoint(f"unix:{path}", lambda: "")
    assert path.read_text() == "mine"


def test_promtool_accepts_the_page() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool on this machine (Debian: apt-get install prometheus)")
    page = page_of(("fuel", float("nan")), ('air\n\\"', float("inf")))
    done = subprocess.run(
        [program, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_recording_has_no_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dash", str(tmp_path), "--metrics", "0"]) == 2
    assert "this is a recording" in capsys.readouterr().err
    assert main(["record", "run.toml", "--metrics", "nowhere:x"]) == 2


def begun(start: Any, simulator: Any, folder: Path, command: tuple[object, ...]) -> tuple[Any, str]:
    """A run with metrics, and the address of its page."""
    _, (port,) = simulator("A:500")
    (folder / "run.toml").write_text(
        '[record]\nrate_hz = 20\nout = "out"\nformats = ["csv"]\n[[device]]\nname = "fuel"\n'
        f'port = "{port}"\nbaudrate = 115200\ntimeout = 10\n'
    )
    running = start(*command, "--metrics", "127.0.0.1:0")
    place = running.wait_for(r"metrics on http://").split("metrics on ")[1].strip()
    return running, place


RECORD = ("record", "run.toml", "--no-plot")
DASH = ("dash", "run.toml", "--port", 0)


@pytest.mark.usefixtures("native_loop")
@pytest.mark.parametrize("command", [RECORD, DASH], ids=["record", "dash"])
def test_a_run_tells_its_values(
    start: Any, simulator: Any, tmp_path: Path, command: tuple[object, ...]
) -> None:
    running, place = begun(start, simulator, tmp_path, command)
    found: dict[str, str] = {}
    while 'penstock_device_up device="fuel"' not in found:
        with urllib.request.urlopen(place, timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            found = samples(answer.read().decode())
    running.process.terminate()
    running.finish()
    assert found['penstock_device_up device="fuel"'] == "1.0"
    assert any(name.startswith('penstock_field_value device="fuel"') for name in found)
    assert int(found['penstock_samples_total device="fuel"']) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("native_loop")
def test_prometheus_scrapes_a_recording_and_a_server(
    start: Any, simulator: Any, tmp_path: Path
) -> None:
    endpoint = MetricsEndpoint("127.0.0.1:0", partial(metrics_page, SharedCounters()))
    running, place = begun(start, simulator, tmp_path, RECORD)
    jobs = {
        job: urllib.parse.urlsplit(url).netloc
        for job, url in (("recorder", place), ("serve", endpoint.place))
    }
    with prometheus(jobs) as server:
        for job in jobs:
            server.wait_for(f'up{{job="{job}"}} == 1')
        # As a panel of penstock grafana asks.
        shown = SOURCES["prometheus"]("").curve("Mass_Flow")["expr"]
        [(labels, flow)] = server.wait_for(shown)
        assert (labels["device"], labels["unit"]) == ("fuel", "SCCM")
        assert math.isfinite(flow)
        [(_, first)] = server.wait_for('penstock_samples_total{device="fuel"}')
        # A counter counts up from one scrape to another.
        server.wait_for(f'penstock_samples_total{{device="fuel"}} > {first}')
        server.wait_for('penstock_device_up{device="fuel"} == 1')
        server.wait_for("penstock_workers")
        running.process.terminate()
        running.finish()
        # Without a stamp of their own, values are stale at the first scrape that fails.
        server.wait_for('up{job="recorder"} == 0')
        assert server.query("penstock_field_value") == []
    endpoint.close()
