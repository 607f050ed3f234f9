"""``verify``, ``export`` and ``plot`` of a recording in a PostgreSQL server."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pyarrow.parquet as pq
import pytest

from penstock.cli import main
from penstock.record import PostgresSink, pipe, record
from tests.python.integration.postgres import PostgresServer, postgres_server
from tests.python.record.instruments import DescribedBench, FakeField, FakeResult, HandClock, reply

pytest.importorskip("psycopg")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server with the table ``oven``: 100 polls of one device in 10 s."""
    clock = HandClock()

    async def answer(name: str, count: int) -> FakeResult:
        asked = clock.now
        clock.now += 1_000_000
        return reply({"Mass_Flow": 60.0 * count}, asked_ns=asked)

    async def fill(dsn: str) -> None:
        fields = [FakeField("Mass_Flow", "float", "SCCM")]
        source = DescribedBench([["fuel"]], answer, schemas={"fuel": fields})
        spool = tmp_path_factory.mktemp("spool") / "spool"
        async with record(source, rate_hz=10, duration=10, clock=clock) as recording:
            await pipe(recording, PostgresSink(dsn, table="oven", spool=spool))

    with postgres_server() as running:
        anyio.run(fill, running.dsn())
        yield running


def test_a_table_is_verified(server: PostgresServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", server.uri(), "--table", "oven", "--json"]) == 0
    [(name, found)] = json.loads(capsys.readouterr().out).items()
    assert name == f"PostgreSQL at {server.folder}:{server.port}/postgres, table oven"
    assert found["problems"] == 0
    assert found["devices"]["fuel"]["samples"] == 100


def test_a_table_is_exported(server: PostgresServer, tmp_path: Path) -> None:
    out = tmp_path / "oven.parquet"
    arguments = ["export", server.uri(), str(out), "--table", "oven", "--unit", "Mass_Flow=SLPM"]
    assert main(arguments) == 0
    table = pq.read_table(out)
    assert table["Mass_Flow"].to_pylist() == pytest.approx([0.06 * count for count in range(100)])
    assert table.schema.field("Mass_Flow").metadata == {b"unit": b"SLPM"}


def test_a_table_is_plotted(server: PostgresServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", server.uri(), "--table", "oven"]) == 0
    assert capsys.readouterr().out.startswith("fuel Mass_Flow (SCCM)\n")


@pytest.mark.parametrize("command", ["verify", "plot"])
def test_a_server_that_is_away_is_one_sentence(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([command, "postgresql://me@localhost:1/gone"]) == 5
    assert "cannot read PostgreSQL at localhost:1/gone" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "run.csv", "URI"],
        ["plot", "URI"],
        ["export", "URI", "out.csv"],
        ["query", "URI", "SELECT 1"],
        ["dash", "URI"],
        ["grafana", "URI", "folder"],
        ["recover", "URI"],
        ["archive", "nats://localhost:1/lab", "URI"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize(
    "uri", ["postgresql://me:secret@localhost:1/gone", "postgres://localhost/gone?password=secret"]
)
def test_a_password_on_the_command_line_is_refused_and_not_repeated(
    capsys: pytest.CaptureFixture[str], words: list[str], uri: str
) -> None:
    assert main([uri if word == "URI" else word for word in words]) == 2
    error = capsys.readouterr().err
    assert "set PGPASSWORD in the environment" in error
    assert "secret" not in error


def test_a_table_that_is_not_there_is_an_error(
    server: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", server.uri(), "--table", "kiln"]) == 5
    assert "table kiln has no recording kiln yet" in capsys.readouterr().err


def run_toml(folder: Path, port: str) -> None:
    (folder / "run.toml").write_text(
        f"""
        [record]
        rate_hz = 20
        out = "out"
        formats = ["csv"]
        [[device]]
        name = "fuel"
        port = "{port}"
        baudrate = 115200
        timeout = 10
        """
    )


@pytest.mark.usefixtures("native_loop")
def test_a_table_that_exists_is_refused_with_the_options_of_the_command(
    server: PostgresServer, penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    run_toml(tmp_path, port)
    arguments = ("record", "run.toml", "--no-plot", "--postgres-dsn", server.uri())
    assert penstock(*arguments, "--duration", "0.2").returncode == 0
    shutil.rmtree(tmp_path / "out")
    done = penstock(*arguments, "--duration", "0.2")
    assert done.returncode == 5
    assert "already exists in PostgreSQL at " in done.stderr
    assert "add --resume to continue it or --overwrite to replace it" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("native_loop")
def test_a_run_that_a_signal_ends_names_the_rows_that_its_server_has_not(
    server: PostgresServer, start: Any, penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    run_toml(tmp_path, port)
    arguments = ("record", "run.toml", "--no-plot", "--postgres-dsn", server.uri())
    running = start(*arguments, "--overwrite")
    running.wait_for(r"[1-9][0-9]* samples")
    server.stop()
    try:
        running.wait_for(r"[1-9][0-9]* samples")
        running.process.send_signal(signal.SIGTERM)
        code, _, errors = running.finish()
    finally:
        server.start()
    assert code == 5
    assert "samples.postgres-spool" in errors
    assert (tmp_path / "out" / "samples.postgres-spool").exists()
    assert penstock(*arguments, "--resume", "--duration", "0.2").returncode == 0
    assert not (tmp_path / "out" / "samples.postgres-spool").exists()
    done = penstock("verify", "--json", "out/samples.csv", server.uri())
    files = [found["devices"]["fuel"]["samples"] for found in json.loads(done.stdout).values()]
    assert files[0] == files[1]
