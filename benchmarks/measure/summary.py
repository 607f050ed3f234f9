"""The summary of all pages: for each subject one row, with the ratio to its best peer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure.contenders import FLOOR, is_peer
from benchmarks.measure.spread import Spread
from benchmarks.measure.tables import figure, markdown_table
from benchmarks.measure.verdicts import LEVEL_TEXT, LOST, WON, better, kind, lost_figures, verdict


@dataclass(frozen=True)
class SummaryRow:
    """One row of the summary.

    Attributes:
        title: what is measured.
        page: the page that it is from.
        labels: the labels of the comparison.
        metric: the key of the figure.
        cells: the key of the comparison's table in the page's results.
        beside: whom it is compared with; by default the best peer.
    """

    title: str
    page: str
    labels: tuple[str, ...]
    metric: str
    cells: str = "cells"
    beside: str | None = None


@dataclass(frozen=True)
class Compared:
    """A row of the summary with its result.

    Attributes:
        title: what is measured.
        page: the page that it is from.
        kind: what the figure is: "CPU", "rate", "p50".
        peer: whom Penstock is compared with.
        ratio: how many times as fast or as cheap Penstock is.
        verdict: won, level or lost.
        to_floor: how near Penstock is to the floor, where one was measured.
    """

    title: str
    page: str
    kind: str
    peer: str
    ratio: Spread
    verdict: str
    to_floor: Spread | None = None


SERVER_CPU = "server_cpu_us_per_request"
REQUESTS = "requests_per_second"
CPU = "cpu_ns_per_operation"
WALL = "wall_us_per_operation"
OPERATIONS = "operations_per_second"
FILE_WALL = "wall_us_per_file"
ROWS_PER_SECOND = "rows_per_s"
MEDIAN_US = "p50_us"
OWN_LOOP = "penstock's loop, the others on their best"
WHOLE_FILES = "8 × 2 MiB, whole files: write, read"
ITSELF = "penstock@asyncio"

LOOP_ROWS = (
    SummaryRow("TCP echo, protocol", "echo", ("protocol", "1 KiB", "32"), SERVER_CPU),
    SummaryRow("TCP echo, 512 connections", "echo", ("protocol", "1 KiB", "512"), SERVER_CPU),
    SummaryRow("TCP echo, asyncio streams", "echo", ("streams", "1 KiB", "32"), SERVER_CPU),
    SummaryRow("TCP echo, native streams", "echo", ("native-streams", "1 KiB", "32"), SERVER_CPU),
    SummaryRow("TCP echo, sock_recv", "echo", ("sock", "1 KiB", "32"), SERVER_CPU),
    SummaryRow("Three clients, protocol", "uvloop_bench", ("1 KiB", "proto"), SERVER_CPU),
    SummaryRow("Three clients, streams", "uvloop_bench", ("1 KiB", "streams"), SERVER_CPU),
    SummaryRow(
        "Three clients, native streams",
        "uvloop_bench",
        ("1 KiB", "native-streams"),
        SERVER_CPU,
    ),
    SummaryRow("uvloop's page, streams", "uvloop_bench", ("1 KiB", "streams"), REQUESTS),
    SummaryRow(
        "The same, workers in Python",
        "uvloop_bench",
        ("1 KiB", "streams"),
        REQUESTS,
        "python_client_cells",
    ),
    SummaryRow("UDP echo", "udp", ("protocol", "1 KiB", "32"), SERVER_CPU),
    SummaryRow("Unix socket echo, streams", "unix", ("streams", "1 KiB", "32"), SERVER_CPU),
    SummaryRow("TLS echo, streams", "tls", ("streams", "1 KiB", "32"), SERVER_CPU),
    SummaryRow("uvicorn", "http", ("uvicorn + httptools",), REQUESTS),
    SummaryRow("aiohttp", "http", ("aiohttp",), REQUESTS),
    SummaryRow("ASGI hello", "asgi", ("hello, 32 connections",), SERVER_CPU),
    SummaryRow("WebSocket echo", "websocket", ("256 B",), SERVER_CPU),
    SummaryRow("call_soon", "scheduling", ("call_soon",), CPU),
    SummaryRow("300,000 × call_soon, then run", "scheduling", ("call_soon, burst",), CPU),
    SummaryRow("call_later(0)", "scheduling", ("call_later(0)",), CPU),
    SummaryRow("300,000 × call_later(0)", "scheduling", ("call_later(0), burst",), CPU),
    SummaryRow("Child processes, eight at once", "spawn", ("8",), "children_per_second"),
    SummaryRow("Memory of a connection", "memory", ("protocol",), "bytes_per_idle_connection"),
)
FILE_ROWS = (
    SummaryRow("Cached 4 KiB reads", "files", ("cached 4 KiB reads, 32 in flight",), WALL),
    SummaryRow("10,000 small files", "files", ("10,000 files of 4 KiB",), WALL),
    SummaryRow("Whole files of 2 MiB", "files", (WHOLE_FILES,), WALL),
    SummaryRow("The same, beside aiofiles", "files", (WHOLE_FILES,), WALL, beside="aiofiles"),
    SummaryRow("200 log appends", "files", ("200 log appends of 1 KiB",), WALL),
    SummaryRow("Direct 4 KiB reads", "files", ("O_DIRECT 4 KiB reads, 32 in flight",), WALL),
    SummaryRow(
        "pyuring's page, 2 MiB read", "files_pyuring", ("8 × 2 MiB", "whole", "read"), FILE_WALL
    ),
    SummaryRow(
        "pyuring's page, 2 MiB written", "files_pyuring", ("8 × 2 MiB", "whole", "write"), FILE_WALL
    ),
    SummaryRow("Longest gap, 1 GiB read", "file_gaps", ("read_file, 1 GiB",), "longest_gap_ms"),
    SummaryRow("Longest gap, 1 GiB written", "file_gaps", ("write_file, 1 GiB",), "longest_gap_ms"),
    SummaryRow("io_uring, cached reads", "uring", ("cached reads, buffers",), OPERATIONS),
    SummaryRow("io_uring, direct reads", "uring", ("direct reads",), OPERATIONS),
)
SERIAL_ROWS = (
    SummaryRow("Serial, receive one byte", "serial", (OWN_LOOP,), "p50_us", "loop: receive"),
    SummaryRow("Serial, exchange", "serial", (OWN_LOOP,), "p50_us", "loop: exchange"),
    SummaryRow("Serial, exchange on asyncio", "serial", ("asyncio",), "p50_us", "loop: exchange"),
    SummaryRow("Serial, exchange on uvloop", "serial", ("uvloop",), "p50_us", "loop: exchange"),
    SummaryRow("Serial, blocking exchange", "serial", ("exchange",), "p50_us", "blocking"),
    SummaryRow("16 serial ports", "serial", ("16", "one process"), "ms", "fan-out"),
    SummaryRow(
        "1 serial port, own loop",
        "serial",
        ("1", "one process"),
        "ms",
        "fan-out",
        ITSELF,
    ),
    SummaryRow(
        "4 serial ports, own loop",
        "serial",
        ("4", "one process"),
        "ms",
        "fan-out",
        ITSELF,
    ),
    SummaryRow(
        "Serial, poll to frame",
        "serial_polling",
        ("in the event loop", OWN_LOOP),
        MEDIAN_US,
        "frame",
    ),
    SummaryRow(
        "Serial, poll to frame, buffered",
        "serial_polling",
        ("BufferedByteReceiveStream", OWN_LOOP),
        MEDIAN_US,
        "frame",
    ),
    SummaryRow(
        "Serial, open and close", "serial_polling", ("open and close", OWN_LOOP), MEDIAN_US, "open"
    ),
    SummaryRow("128 serial ports", "serial_polling", ("128",), "cpu_us_per_poll", "ports"),
)
LABORATORY_ROWS = (
    SummaryRow("Alicat, poll", "alicat", ("poll", "off"), MEDIAN_US, "query"),
    SummaryRow("Alicat, open a device", "alicat", ("open_device",), "open_ms", "open"),
    SummaryRow("16 Alicats at 100 Hz", "alicat", ("16 at 100 Hz",), "cpu_percent", "fleet"),
    SummaryRow("CSV sink", "sinks", ("csv",), ROWS_PER_SECOND, "many"),
    SummaryRow("SQLite sink", "sinks", ("sqlite",), ROWS_PER_SECOND, "many"),
    SummaryRow("Parquet sink", "sinks", ("parquet-zstd",), ROWS_PER_SECOND, "many"),
    SummaryRow("pipe() into CSV", "recording", ("csv",), "samples_a_second", "pipe"),
    SummaryRow("pipe() into Parquet", "recording", ("parquet",), "samples_a_second", "pipe"),
)
CPP_ROWS = (
    SummaryRow("C++ TCP echo", "cpp_echo", ("1 KiB", "32"), SERVER_CPU),
    SummaryRow(
        "C++ round trips, one connection",
        "cpp_sequential",
        ("64 B", "1000"),
        "wall_us_per_round_trip",
    ),
    SummaryRow("C++ start and join a task", "cpp_tasks", ("start and join a task",), CPU),
    SummaryRow("C++ value through a channel", "cpp_tasks", ("a value through a channel",), CPU),
    SummaryRow("C++ stream of messages", "cpp_stream", ("1 KiB",), SERVER_CPU),
    SummaryRow("C++ TLS echo", "cpp_tls", ("1 KiB", "32"), SERVER_CPU),
    SummaryRow("C++ HTTP, own load", "cpp_http", ("own", "32"), REQUESTS),
    SummaryRow("C++ HTTP, wrk", "cpp_http", ("wrk", "32"), REQUESTS),
    SummaryRow("C++ WebSocket echo", "cpp_websocket", ("1 KiB", "32"), SERVER_CPU),
    SummaryRow(
        "C++ WebSocket, one connection",
        "cpp_websocket_sequential",
        ("64 B", "1000"),
        "wall_us_per_message",
    ),
    SummaryRow(
        "C++ WebSocket client",
        "cpp_websocket_client",
        ("bun", "64 B", "1000"),
        "wall_us_per_message",
    ),
)
SUBJECTS = (
    ("The event loop", LOOP_ROWS),
    ("Files", FILE_ROWS),
    ("Serial ports", SERIAL_ROWS),
    ("Instruments and recordings", LABORATORY_ROWS),
    ("C++", CPP_ROWS),
)
LOST_TEXT = (
    "A subject above has one figure. These are all figures of all pages that are lost with their "
    "whole spread, the tails of latency included."
)
ROWS = tuple(row for _, rows in SUBJECTS for row in rows)


def summary_text(results: Path, pages: Iterable[str]) -> str:
    """The table, what it adds up to, and where and when its pages were measured.

    ``pages`` are the names of all pages; those without results are named.
    """
    verdicts = Counter(verdict(_ratio_to_peer(row, cell)) for row, cell in _measured(results))
    counted = ", ".join(f"{verdicts[each]} {each.strip('*')}" for each in (WON, LEVEL_TEXT, LOST))
    missing = [page for page in sorted(pages) if not (results / f"{page}.json").exists()]
    parts = [f"Rows: {counted}."]
    for subject, rows in SUBJECTS:
        if any(_measured(results, rows)):
            parts += [f"### {subject}", summary_table(results, rows)]
    parts += ["### Every lost figure", LOST_TEXT, lost_figures(results), *_machines(results)]
    if lacking := lacking_rows(results):
        parts.append(f"Not measured since these rows came: {', '.join(lacking)}.")
    if missing:
        parts.append(f"Not published yet: {', '.join(missing)}.")
    return "\n\n".join(parts)


def lacking_rows(results: Path) -> list[str]:
    """The rows whose page has results, but not of this row."""
    found = {row.title for row, _ in _measured(results)}
    return [
        f"{row.title} ({row.page})"
        for row in ROWS
        if row.title not in found and (results / f"{row.page}.json").exists()
    ]


def _peer(row: SummaryRow, cell: dict[str, Any]) -> str | None:
    best: str | None = cell["best_peer"][row.metric]
    return row.beside or (best if best is not None and is_peer(best) else None)


def _ratio_to_peer(row: SummaryRow, cell: dict[str, Any]) -> Spread | None:
    return better(row.metric, cell["penstock_to"][row.metric].get(_peer(row, cell)))


def _machines(results: Path) -> Iterator[str]:
    """One sentence for each machine and set of versions that pages were measured with."""
    pages: dict[str, list[str]] = {}
    for path in sorted(results.glob("*.json")):
        facts = json.loads(path.read_text()).get("machine")
        if facts is None:
            continue
        place = (
            f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}, {facts['system']},"
            f" {facts['python']}, {facts['compiler']}"
        )
        when = ", ".join(part for part in (facts["date"][:10], facts.get("commit")) if part)
        pages.setdefault(place, []).append(f"{path.stem} ({when})")
    for place, measured in pages.items():
        yield f"Measured on {place}: {', '.join(measured)}."


def summary_table(results: Path, rows: Sequence[SummaryRow] = ROWS) -> str:
    """The table of those rows whose page has results.

    A ratio tells how many times as fast or as cheap Penstock is: above 1 Penstock is better,
    whatever the figure.
    """
    table = []
    for row, cell in _measured(results, rows):
        peer = _peer(row, cell)
        ratio = _ratio_to_peer(row, cell)
        floor = better(row.metric, cell["penstock_to"][row.metric].get(FLOOR))
        table.append(
            [
                f"[{row.title}]({row.page}.md)",
                verdict(ratio),
                "" if ratio is None else figure(ratio, 2),
                peer if ratio is not None and peer is not None else "none",
                kind(row.metric),
                "" if floor is None else figure(floor, 2),
            ]
        )
    # The ratio stands where a phone shows it.
    header = ["", "", "ratio", "compared with", "figure", "to the floor"]
    return markdown_table(header, table, labels=2, width=None)


def compared_rows(results: Path, rows: Sequence[SummaryRow] = ROWS) -> list[Compared]:
    """Those rows that have been measured beside a peer."""
    found = []
    for row, cell in _measured(results, rows):
        peer, ratio = _peer(row, cell), _ratio_to_peer(row, cell)
        if peer is not None and ratio is not None:
            found.append(
                Compared(
                    row.title,
                    row.page,
                    kind(row.metric),
                    peer,
                    ratio,
                    verdict(ratio),
                    better(row.metric, cell["penstock_to"][row.metric].get(FLOOR)),
                )
            )
    return found


def _measured(
    results: Path, rows: Sequence[SummaryRow] = ROWS
) -> Iterator[tuple[SummaryRow, dict[str, Any]]]:
    loaded: dict[str, Any] = {}
    for row in rows:
        path = results / f"{row.page}.json"
        if row.page not in loaded:
            loaded[row.page] = json.loads(path.read_text()) if path.exists() else {}
        for cell in loaded[row.page].get(row.cells, ()):
            if tuple(cell["labels"]) == row.labels:
                yield row, cell
