"""Sinks over the network: what a row costs, and whether a server delays the recorder.

    PYTHONPATH=python .venv/bin/python benchmarks/sinks/network.py --part cost
    PYTHONPATH=python .venv/bin/python benchmarks/sinks/network.py --part archive
    PYTHONPATH=python .venv/bin/python benchmarks/sinks/network.py --part lateness
    PYTHONPATH=python .venv/bin/python benchmarks/sinks/network.py --part fleet --rate 10

``cost``: rows of 7 fields through the InfluxDB sink into an HTTP server that throws them away: rows
per CPU-second of the sink's process, and beside it influxdb-client's lines, if it is installed.
``archive``: rows through NatsSink, a NATS server and an archiver into Parquet, three processes on
this machine: samples a second from the first write to the last commit, per CPU-second of all, and
the CPU time of a sample in each process.
``lateness``: twenty devices at 50 Hz into a null sink, and into InfluxDB that answers, is stopped
(SIGSTOP), is down, or flaps; in turn. Five runs a round: with ``--seconds 8`` five rounds take four
minutes, and one late sample of the 8,000 of a run is 0.0125 points.
``fleet``: recorders into a NATS server and an archiver, all in processes of their own: the share of
a core and the memory of each, and the bytes of a row in the stream and in the archive.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

import penstock
from penstock.record import (
    ColumnBuffer,
    Field,
    InfluxSink,
    InMemorySink,
    NatsSink,
    PollResult,
    RecordSchema,
    SampleBatch,
    Sink,
    SinkWriteError,
    pipe,
    poll_timed,
    record,
)
from penstock.record.archives import Archiver, store_at
from penstock.record.archives.manifest import manifests
from tests.python.integration.influx import InfluxServer, influx_server
from tests.python.integration.nats import nats_server

FIELDS = tuple(Field(f"Field_{number}", "float", "SCCM") for number in range(7))
SCHEMA = RecordSchema(FIELDS, "{}")
BATCH_ROWS = 5_000
DEVICES = 20
RATE_HZ = 50.0

# It reads a request by its length and answers 204: no more than a database's front has to do.
NULL_SERVER = """
import asyncio
async def serve(reader, writer):
    try:
        while head := await reader.readuntil(b"\\r\\n\\r\\n"):
            size = int(head.lower().split(b"content-length:")[1].split(b"\\r\\n")[0])
            await reader.readexactly(size)
            writer.write(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 16)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def batch(first: int, rows: int = BATCH_ROWS) -> SampleBatch:
    """Rows of four devices, with noise in every field."""
    buffer = ColumnBuffer(SCHEMA)
    start = 1_795_262_400_000_000_000
    for number in range(first, first + rows):
        stamp = start + number * 1_000_000
        values = {
            field.name: (number * 7919 + place * 104_729) % 100_003 / 100.0
            for place, field in enumerate(FIELDS)
        }
        buffer.append_row(f"d{number % 4}", "A", stamp, stamp + 1, 1, 2, values, "", None)
    return SampleBatch.from_buffer(buffer)


async def cost(rows: int, folder: Path) -> dict[str, float]:
    """Rows per CPU-second of this process, into a server that throws them away."""
    batches = [batch(first) for first in range(0, rows, BATCH_ROWS)]
    command = [sys.executable, "-c", NULL_SERVER]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"influx://127.0.0.1:{int(server.stdout.readline())}/lab"
        sink = InfluxSink(url, spool=folder / "spool", close_timeout=600.0)
        await sink.open()
        began, cpu = time.perf_counter(), time.process_time()
        for each in batches:
            await sink.write_batch(each)
        await sink.close()
        found = {
            "rows_per_cpu_second": rows / (time.process_time() - cpu),
            "rows_per_second": rows / (time.perf_counter() - began),
        }
    finally:
        server.kill()
        server.wait()
    try:
        client = importlib.import_module("influxdb_client")
    except ImportError:
        return found
    cpu = time.process_time()
    for number in range(rows // 20):
        point = client.Point("samples").tag("device", "d1").time(number)
        for field in FIELDS:
            point.field(field.name, number / 100.0)
        point.to_line_protocol()
    found["influxdb_client_lines_per_cpu_second"] = rows / 20 / (time.process_time() - cpu)
    return found


async def archive(rows: int, folder: Path) -> dict[str, float]:
    """Samples a second from the first write until all are committed, and per CPU-second of all.

    The archiver is a process of its own, as it would be. At the end it is told to write what it
    has, and what it has not read yet is archived here.
    """
    batches = [batch(first) for first in range(0, rows + BATCH_ROWS, BATCH_ROWS)]
    target = str(folder / "archive")

    def archived() -> int:
        return sum(each.rows for each in manifests(store_at(target)))

    with nats_server() as server:
        command = [sys.executable, "-m", "penstock.cli", "archive", server.url(), target]
        sink = NatsSink(server.url(), spool=folder / "spool", close_timeout=600.0)
        await sink.open()
        await sink.write_batch(batches.pop())
        await sink.flush()
        running = subprocess.Popen([*command, "--part-seconds", "2"])
        while archived() < BATCH_ROWS:  # it has imported what it needs  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        used = [Used(process) for process in (os.getpid(), running.pid, server.pid)]
        began = time.perf_counter()
        for each in batches:
            await sink.write_batch(each)
        await sink.close()
        sent = time.perf_counter() - began
        recorder, archiver = used[0].cpu_seconds(), used[1].cpu_seconds()
        running.terminate()
        while running.poll() is None:
            with suppress(OSError, ValueError):  # until it has ended
                archiver = used[1].cpu_seconds()
            await asyncio.sleep(0.005)
        rest = used[0].cpu_seconds()
        last = asyncio.create_task(Archiver(server.url(), store_at(target)).run(once=True))
        while archived() < rows + BATCH_ROWS and not last.done():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        elapsed = time.perf_counter() - began
        await last  # it also joins files
        archiver += used[0].cpu_seconds() - rest
        server_cpu = used[2].cpu_seconds()
        assert archived() == rows + BATCH_ROWS
    return {
        "samples_per_second": rows / elapsed,
        "samples_per_second_into_the_stream": rows / sent,
        "samples_per_cpu_second_of_all": rows / (recorder + archiver + server_cpu),
        "recorder_cpu_us_a_sample": 1e6 * recorder / rows,
        "server_cpu_us_a_sample": 1e6 * server_cpu / rows,
        "archiver_cpu_us_a_sample": 1e6 * archiver / rows,
    }


class Instruments:
    """Twenty devices that answer at once."""

    names = tuple(f"d{number}" for number in range(DEVICES))
    source_id = "benchmark"
    revision = 0

    def field_schemas(self) -> Mapping[str, Sequence[Field]]:
        return {name: list(FIELDS) for name in self.names}

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, PollResult]:
        async def ask() -> dict[str, float]:
            return {field.name: 20.5 for field in FIELDS}

        return {name: await poll_timed(ask) for name in names or self.names}


async def late_share(sink: Sink, seconds: float) -> float:
    """Late samples of a run, in percent."""
    await sink.open()
    async with record(Instruments(), rate_hz=RATE_HZ, duration=seconds) as recording:
        with suppress(SinkWriteError):  # at the end, rows wait in the spool, as they should
            await pipe(recording, sink)
    return 100.0 * recording.summary.samples_late / max(1, recording.summary.samples_emitted)


async def disturb(server: InfluxServer, how: str, ended: asyncio.Event) -> None:
    """Bring the server into a state; ``flaps`` goes on until ``ended``.

    It is not cancelled: a thread that starts a server goes on beside who ends it.
    """
    if how == "stopped":
        server.pause()
    elif how == "down":
        await asyncio.to_thread(server.kill)
    while how == "flaps" and not ended.is_set():
        for change in (server.kill, server.start):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await ended.wait()
            await asyncio.to_thread(change)


async def lateness(rounds: int, seconds: float, folder: Path) -> dict[str, float]:
    """Medians of the late samples in percent, by the state of the server."""
    states = ("answers", "stopped", "down", "flaps")
    found: dict[str, list[float]] = {"null sink": [], **{state: [] for state in states}}
    for number in range(rounds):
        found["null sink"].append(await late_share(InMemorySink(), seconds))
        for state in states:
            with influx_server() as server:
                spool = folder / f"{state}-{number}"
                sink = InfluxSink(server.url(), spool=spool, timeout=2.0, close_timeout=0.1)
                ended = asyncio.Event()
                disturbance = asyncio.ensure_future(disturb(server, state, ended))
                try:
                    found[state].append(await late_share(sink, seconds))
                finally:
                    ended.set()
                    await disturbance
    return {name: statistics.median(shares) for name, shares in found.items()}


_RECORDER = """
import sys, penstock
from benchmarks.sinks.network import FIELDS, Instruments
from penstock.record import NatsSink, pipe, record

class Own(Instruments):
    names = tuple(f"d{number}" for number in range(int(sys.argv[4])))

async def main():
    async with NatsSink(sys.argv[1], spool=sys.argv[2]) as sink:
        async with record(Own(), rate_hz=float(sys.argv[3]), duration=3600) as recording:
            await pipe(recording, sink)
penstock.run(main())
"""


class Used:
    """What a process has used of the machine since this object was made."""

    def __init__(self, process: int) -> None:
        self._folder = Path(f"/proc/{process}")
        self._began = time.perf_counter(), self._cpu()

    def _cpu(self) -> float:
        ticks = self._folder.joinpath("stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def cpu_seconds(self) -> float:
        """CPU time."""
        return self._cpu() - self._began[1]

    def core_percent(self) -> float:
        """CPU time by elapsed time, in percent."""
        return 100 * self.cpu_seconds() / (time.perf_counter() - self._began[0])

    def megabytes(self) -> float:
        """The memory that is this process's alone."""
        lines = self._folder.joinpath("smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def fleet(
    recorders: int, devices: int, rate_hz: float, seconds: float, folder: Path
) -> dict[str, float]:
    """The medians of some recorders, and their server and archiver, in a steady state."""
    with nats_server() as server:
        started = []
        try:
            for number in range(recorders):
                arguments = [
                    server.url(),
                    str(folder / f"spool-{number}"),
                    str(rate_hz),
                    str(devices),
                ]
                started.append(subprocess.Popen([sys.executable, "-c", _RECORDER, *arguments]))
            command = [sys.executable, "-m", "penstock.cli", "archive", server.url()]
            options = [str(folder / "archive"), "--part-seconds", "5", "--json"]
            archiver = subprocess.Popen([*command, *options])
            started.append(archiver)
            while (
                server.ask("STREAM.INFO.lab").get("state", {}).get("num_subjects", 0)
                < recorders * devices
            ):
                time.sleep(0.5)
            time.sleep(5)  # for the first file, and what is imported for it
            before = server.ask("STREAM.INFO.lab")["state"]
            used = [Used(process.pid) for process in started]
            own = Used(server.pid)
            time.sleep(seconds)
            after = server.ask("STREAM.INFO.lab")["state"]
            rows = recorders * devices * rate_hz * seconds
            found = {
                "recorder_core_percent": statistics.median(u.core_percent() for u in used[:-1]),
                "recorder_mb": statistics.median(u.megabytes() for u in used[:-1]),
                "server_core_percent_a_recorder": own.core_percent() / recorders,
                "server_mb": own.megabytes(),
                "archiver_core_percent_a_recorder": used[-1].core_percent() / recorders,
                "archiver_mb": used[-1].megabytes(),
                "stream_bytes_a_row": (after["bytes"] - before["bytes"]) / rows,
                "messages_a_second_a_recorder": (after["messages"] - before["messages"])
                / seconds
                / recorders,
            }
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()
    files = [file.stat() for file in (folder / "archive").rglob("run=*/**/*.parquet")]
    found["archive_files"] = len(files)
    return found


def main() -> None:
    """Measure a part, and print it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=("cost", "archive", "lateness", "fleet"), default="cost")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of a run of lateness, or of fleet"
    )
    parser.add_argument("--recorders", type=int, default=8, help="of fleet")
    parser.add_argument("--devices", type=int, default=1, help="of a recorder of fleet")
    parser.add_argument("--rate", type=float, default=10.0, help="polls a second, of fleet")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-network-") as name:
        folder = Path(name)
        if options.part == "cost":
            found = penstock.run(cost(options.rows, folder))
        elif options.part == "archive":
            found = penstock.run(archive(options.rows, folder))
        elif options.part == "fleet":
            found = fleet(options.recorders, options.devices, options.rate, options.seconds, folder)
        else:
            found = penstock.run(lateness(options.rounds, options.seconds, folder))
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()
