"""``penstock record`` into a server beside the files: ``[[sink]]`` and ``--to``."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._recording import config as config_of_runs
from penstock.cli._recording import network_sinks
from penstock.cli._recording.config import parse_config, sink_of_option
from penstock.cli._recording.network_sinks import NetworkSinks
from penstock.cli._recording.plan import SinkPlan
from tests.python.integration.influx import InfluxServer, influx_server

DEVICE = '[[device]]\nname = "fuel"\nport = "{}"\nbaudrate = 115200\ntimeout = 10\n'
RUN = '[record]\nrate_hz = 20\nout = "out"\nformats = ["csv"]\n' + DEVICE
SINK = '[[sink]]\nurl = "{}"\n'


def test_a_table_names_a_server_and_its_options() -> None:
    text = DEVICE.format("p") + SINK.format("influx://h/lab") + 'token_file = "t"\n'
    config = parse_config(text.encode(), "run.toml")
    assert config.sinks == (SinkPlan("influx://h/lab", {"token_file": "t"}),)


def test_a_table_limits_the_spool_and_what_a_crash_may_lose() -> None:
    options = "spool_bytes = 2_000_000_000\nloss_interval = 5\n"
    nats = SINK.format("nats://h/lab") + options + "lag = 0.5\n"
    postgres = SINK.format("postgresql://me@h/lab") + options + "timescale = true\n"
    config = parse_config((DEVICE.format("p") + nats + postgres).encode(), "run.toml")
    common = {"spool_bytes": 2_000_000_000, "loss_interval": 5.0}
    assert [plan.options for plan in config.sinks] == [
        {"lag": 0.5, **common},
        {"timescale": True, **common},
    ]


def test_the_keys_of_a_table_are_options_of_its_sink() -> None:
    for scheme, (_, sink) in network_sinks._KINDS.items():
        assert set(config_of_runs._OPTIONS[scheme]) <= set(inspect.signature(sink).parameters)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[[sink]]\n", "the key url is missing"),
        (
            SINK.format("http://me:secret@h/lab"),
            "the kind of the url is unknown; write one of influx://",
        ),
        (SINK.format("influx://me:secret@h/lab"), "must not contain a user or a password"),
        (SINK.format("influx://h/lab") + "tokenfile = 'x'\n", "did you mean token_file"),
        (SINK.format("influx://h/lab") + "measurement = 3\n", "measurement = 3 is not text"),
        (SINK.format("influx://h/lab") + 'spool_bytes = "8GB"\n', "is not a whole number"),
        (SINK.format("influx://h/lab") + "loss_interval = -1\n", "is out of range"),
        (SINK.format("influx://h/lab") + "lag = 1\n", "unknown key"),
    ],
)
def test_a_wrong_table_is_refused_without_its_secret(table: str, message: str) -> None:
    with pytest.raises(CommandError, match=message) as refused:
        parse_config((DEVICE.format("p") + table).encode(), "run.toml")
    assert refused.value.code is ExitCode.CONFIG
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["lab", "influx://me:secret@h/lab", "file:///secret"])
def test_a_wrong_option_is_refused_without_its_secret(url: str) -> None:
    with pytest.raises(CommandError) as refused:
        sink_of_option(url)
    assert refused.value.code is ExitCode.USAGE
    assert "secret" not in str(refused.value)


@pytest.fixture(scope="module")
def server() -> Iterator[InfluxServer]:
    with influx_server() as running:
        yield running


def csv_rows(folder: Path) -> list[dict[str, str]]:
    """The samples of a run and of those that have resumed it."""
    rows: list[dict[str, str]] = []
    for path in folder.glob("samples*.csv"):
        with path.open(newline="") as file:
            rows += [row for row in csv.DictReader(file) if not row["event"]]
    return sorted(rows, key=lambda row: int(row["t_mono_ns"]))


@pytest.mark.slow
@pytest.mark.usefixtures("native_loop")
def test_a_run_is_in_the_server_as_it_is_in_the_file(
    server: InfluxServer, penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    (tmp_path / "run.toml").write_text(RUN.format(port) + SINK.format(server.url()))
    arguments = ("record", "run.toml", "--no-plot", "--duration", "0.5")
    assert penstock(*arguments, "--check").returncode == 0
    done = penstock(*arguments)
    assert done.returncode == 0, done.stderr
    rows = csv_rows(tmp_path / "out")
    points = server.query("SELECT * FROM samples")
    assert points
    for row, point in zip(rows, points, strict=True):
        assert (point["device"], point["t_mono_ns"]) == ("fuel", int(row["t_mono_ns"]))
        assert point["Mass_Flow"] == float(row["Mass_Flow"])
    assert not (tmp_path / "out" / "samples.influx-spool").exists()

    # The same while nobody answers: the rows wait, and the run that goes on sends them.
    server.kill()
    failed = penstock(*arguments, "--resume")
    assert failed.returncode == 5
    assert "takes no rows" in failed.stdout + failed.stderr
    assert "samples.influx-spool, and the next recording with this spool" in failed.stderr
    server.start()
    assert penstock(*arguments, "--resume").returncode == 0
    rows = csv_rows(tmp_path / "out")
    points = server.query("SELECT t_mono_ns FROM samples")
    assert [point["t_mono_ns"] for point in points] == [int(row["t_mono_ns"]) for row in rows]


@pytest.mark.slow
@pytest.mark.usefixtures("native_loop")
def test_a_database_that_is_not_there_ends_a_run_before_it_begins(
    server: InfluxServer, penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    (tmp_path / "run.toml").write_text(RUN.format(port))
    done = penstock("record", "run.toml", "--no-plot", "--to", server.url("nowhere"))
    assert done.returncode == 5
    assert "create nowhere there" in done.stderr
    assert not (tmp_path / "out").exists()


class RefusingSink:
    """A sink whose server has refused rows; the test ends with its fifth look."""

    server = "influx://h:8086/lab"
    rows_refused = 3
    refusals = "those are in x.lp (400 bad)"
    is_refused = False

    def __init__(self, scope: anyio.CancelScope) -> None:
        self.looks = 0
        self._scope = scope

    @property
    def trouble(self) -> None:
        self.looks += 1
        if self.looks == 5:
            self._scope.cancel()


class Notes:
    """A recording that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def note(self, message: str, *, kind: str) -> None:
        self.notes.append((kind, message))


def test_rows_that_a_server_refuses_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_sinks, "_LOOKED_AT_EVERY_S", 0)
    told: list[str] = []
    recording: Any = Notes()
    plan: Any = None

    async def tell(text: str) -> None:
        told.append(text)

    async def main() -> None:
        with anyio.CancelScope() as scope:
            sinks = NetworkSinks(plan, tell)
            sinks._sinks.append(RefusingSink(scope))  # type: ignore[arg-type]
            await sinks.watch(recording)

    anyio.run(main)
    text = "influx://h:8086/lab has refused 3 rows; those are in x.lp (400 bad)"
    assert recording.notes == [("sink_refused", text)]
    assert told == [f"penstock: {text}"]


class ChangingSink:
    """A sink whose server goes through states: a reason, and whether it refuses."""

    server = "influx://h:8086/lab"
    rows_refused = 0
    spool = "out/spool"

    def __init__(self, *states: tuple[str | None, bool]) -> None:
        self._states = list(states)
        self.trouble, self.is_refused = self._states.pop(0)

    def go_on(self) -> bool:
        """Be in the next state; False if there is none."""
        if self._states:
            self.trouble, self.is_refused = self._states.pop(0)
            return True
        return False


def test_a_server_that_is_back_and_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last word would else be that it is away, and nobody would correct its token."""
    told: list[str] = []
    recording: Any = Notes()
    plan: Any = None
    sink = ChangingSink(
        (None, False),
        ("no answer", False),
        ("the connection was closed", False),
        ("it wants another token", True),
        ("it wants another token, please", True),
        (None, False),
    )

    async def tell(text: str) -> None:
        told.append(text)

    async def main() -> None:
        with anyio.CancelScope() as scope:

            async def sleep(seconds: float) -> None:
                if not sink.go_on():
                    scope.cancel()
                await anyio.lowlevel.checkpoint()

            monkeypatch.setattr(network_sinks.anyio, "sleep", sleep)
            sinks = NetworkSinks(plan, tell)
            sinks._sinks.append(sink)  # type: ignore[arg-type]
            await sinks.watch(recording)

    anyio.run(main)
    assert recording.notes == [
        ("sink_away", "influx://h:8086/lab takes no rows (no answer): they wait in out/spool"),
        (
            "sink_away",
            "influx://h:8086/lab takes no rows (it wants another token): they wait in out/spool",
        ),
        ("sink_back", "influx://h:8086/lab accepts rows again"),
    ]
    assert told == [f"penstock: {text}" for _, text in recording.notes]


def test_a_file_of_certificates_that_is_not_there_is_a_mistake_of_the_file(
    penstock: Any, tmp_path: Path
) -> None:
    text = RUN.format("/dev/null") + SINK.format("influxs://127.0.0.1:1/lab") + 'ca_file = "no"\n'
    (tmp_path / "run.toml").write_text(text)
    done = penstock("record", "run.toml", "--check")
    assert "certificates in no cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == ExitCode.CONFIG
