"""The tables that peers publish of themselves, row by row, and where each row is measured here.

A row that cannot be measured here has the reason instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.tables import figure, markdown_table
from benchmarks.measure.verdicts import better, with_unit


@dataclass(frozen=True)
class Row:
    """One row of a published table.

    Attributes:
        name: as it is published.
        page: where it is measured here; empty if it cannot be.
        labels: of the comparison, or the keys of other figures in the page's results.
        metric: the figure that is shown; empty for figures without a comparison.
        cells: the key of the comparison's table in the page's results.
        peer: the contender that is that row; by default the best peer.
        reason: why it is not measured.
    """

    name: str
    page: str = ""
    labels: tuple[str, ...] = ()
    metric: str = ""
    cells: str = "cells"
    peer: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a page that a peer publishes: the peer, the table's heading, its rows."""

    peer: str
    heading: str
    rows: tuple[Row, ...]


RATE, CPU, MEDIAN = "requests_per_second", "cpu_ns_per_operation", "p50_us"
FILE_WALL, ROWS_RATE = "wall_us_per_file", "rows_per_s"
OWN_LOOP = "penstock's loop, the others on their best"
NO_LOOP = ("without an event loop", "none")
LOOPS = {"asyncio + uvloop": "uvloop", "asyncio": "asyncio", "trio": "trio"}
WALL_TRIP, WALL_MESSAGE = "wall_us_per_round_trip", "wall_us_per_message"
WEBSOCKET_MESSAGES = (
    *((size, count) for size in ("64 B", "1 KiB") for count in ("10", "100", "1000")),
    *(("64 KiB", count) for count in ("10", "100")),
)
# Its throughput is that of the runs of 100 messages.
WEBSOCKET_THROUGHPUT = tuple((size, "100") for size in ("64 B", "1 KiB", "4 KiB", "64 KiB"))
ZLOOPS_PEERS = ("asyncio", "uvloop", "zloop")
NO_SOURCE = "no package registry carries the library"
NO_CALLBACK = "Trantor 1.5.28 never calls its callback of a completed write"
NO_HARDWARE = "it needs the instrument and its USB adapter; `--device` measures it where one is"
NO_WINDOWS = "it needs Windows"
NO_IMAGE = "it needs that distribution's image, which the benchmarks do not download"


def _zloop() -> Iterator[Table]:
    sizes, modes = ("1 KiB", "10 KiB", "100 KiB"), ("proto", "buffered", "streams")
    for client, cells in (
        ("uvloop's client in Python", "python_client_cells"),
        ("the same, workers in C++ with a core of their own", "cells"),
    ):
        yield Table(
            "zloop",
            f"uvloop's own benchmark, {client}",
            tuple(
                Row(f"{size}, {mode}, {loop}", "uvloop_bench", (size, mode), RATE, cells, loop)
                for size in sizes
                for mode in modes
                for loop in ZLOOPS_PEERS
            ),
        )
    yield Table(
        "zloop",
        "Micro-benchmarks",
        tuple(
            Row(f"{name}, {loop}", "scheduling", (label,), CPU, peer=loop)
            for name, label in (
                ("call_soon", "call_soon"),
                ("call_later", "call_later(0)"),
                ("create_future", "create_future"),
            )
            for loop in ZLOOPS_PEERS
        ),
    )


def _cpp() -> Iterator[Table]:
    for style, contender in (
        ("Asio, sync", "asio_blocking"),
        ("Asio, async", "asio_callbacks"),
        ("Trantor", "trantor"),
    ):
        yield Table(
            "asyncio for C++",
            f"TCP echo, {style}",
            tuple(
                Row(f"{size} / {count}", "cpp_sequential", (size, count), WALL_TRIP, peer=contender)
                for size in ("64 B", "1 KiB", "64 KiB")
                for count in ("100", "1000")
            ),
        )
        sizes = ("64 B", "1 KiB", "4 KiB", "64 KiB")
        yield Table(
            "asyncio for C++",
            f"TCP throughput, {style}",
            tuple(
                Row(size, reason=NO_CALLBACK)
                if contender == "trantor"
                else Row(size, "cpp_stream", (size,), RATE, peer=contender)
                for size in sizes
            ),
        )
    for server, of_server in (("bun", "Bun's server"), (OURS, "its own server")):
        for what, rows in (("messages", WEBSOCKET_MESSAGES), ("throughput", WEBSOCKET_THROUGHPUT)):
            yield Table(
                "asyncio for C++",
                f"WebSocket {what}, {of_server}",
                tuple(
                    Row(
                        f"{size} / {count}",
                        "cpp_websocket_client",
                        (server, size, count),
                        WALL_MESSAGE,
                        peer="bun",
                    )
                    for size, count in rows
                ),
            )
    yield Table(
        "asyncio for C++",
        "Named as still to come: latency distribution of 64 B x 1000, io_uring",
        (
            *(
                Row(f"{what}, {name}", page, labels, f"latency_{name}_us")
                for what, page, labels in (
                    ("TCP", "cpp_sequential", ("64 B", "1000")),
                    ("WebSocket", "cpp_websocket_client", ("bun", "64 B", "1000")),
                )
                for name in ("p50", "p99", "p999")
            ),
            Row(
                "TCP, libuv with UV_USE_IO_URING=1",
                "cpp_sequential",
                ("64 B", "1000"),
                WALL_TRIP,
                peer="libuv_newest_uring",
            ),
        ),
    )
    yield Table(
        "asyncio for C++",
        "WebSocket, Drogon's client and Bun's server",
        tuple(
            Row(
                f"{kind}, {size} / {count}",
                "cpp_websocket_client",
                ("bun", f"{size}, text" if kind == "text" else size, count),
                WALL_MESSAGE,
                peer="drogon",
            )
            for kind, size in (("text", "64 B"), ("binary", "64 B"), ("binary", "64 KiB"))
            for count in ("10", "100")
        ),
    )
    yield Table(
        "asyncio for C++",
        "Rows of the library itself",
        (Row("TCP echo and throughput, asyncio", reason=NO_SOURCE),),
    )
    for what, rows in (("messages", WEBSOCKET_MESSAGES), ("throughput", WEBSOCKET_THROUGHPUT)):
        yield Table(
            "asyncio for C++",
            f"Optimisation of a WebSocket server, {what}: all steps beside none and TCP_NODELAY",
            tuple(
                Row(
                    f"{size} / {count}, {name}",
                    "cpp_websocket_steps",
                    (size, count),
                    WALL_MESSAGE,
                    peer=step,
                )
                for size, count in rows
                for name, step in (("original", "original"), ("TCP_NODELAY", "no_delay"))
            ),
        )


def _pyuring() -> Iterator[Table]:
    page = "files_pyuring"
    both = (("plain calls", "os"), ("pyuring", "pyuring"))
    yield Table(
        "pyuring",
        "Writing and reading together, against plain calls",
        (
            *(
                Row(
                    f"Debian 12: 8 × 2 MiB, {name}",
                    page,
                    ("8 × 2 MiB", "whole"),
                    FILE_WALL,
                    "together",
                    peer,
                )
                for name, peer in both
            ),
            Row("Ubuntu 22.04", reason=NO_IMAGE),
            Row("Fedora 40", reason=NO_IMAGE),
            *(
                Row(f"{what}, {name}", page, (of, "whole"), FILE_WALL, "together", peer)
                for what, of in (
                    ("50 × 20 MiB, O_DIRECT, --qd 64", "50 × 20 MiB, O_DIRECT, 64 in flight"),
                    ("100 × 10 MiB, --qd 32", "100 × 10 MiB"),
                )
                for name, peer in both
            ),
            Row("System calls: 100 × 10 MiB, --qd 32", "files_pyuring", cells="syscalls"),
        ),
    )


def _anyserial() -> Iterator[Table]:
    def portal(operation: str, metric: str = MEDIAN) -> tuple[Row, ...]:
        return tuple(
            Row(
                f"{operation}, {name}{', max' if metric == 'max_us' else ''}",
                "serial",
                (operation, loop),
                metric,
                "portal",
            )
            for name, loop in LOOPS.items()
        )

    calls = "receive_available() penstock@penstock"
    yield Table(
        "anyserial",
        "Targets",
        (
            Row("receive, p50", "serial", ("receive 1 B", OWN_LOOP), MEDIAN, "portal"),
            Row("send, p50", "serial", ("send 1 B", OWN_LOOP), MEDIAN, "portal"),
            Row("64 KiB write throughput", "serial", ("send 64 KiB", OWN_LOOP), MEDIAN, "portal"),
            Row("system calls of receive_available()", "serial", (calls,), cells="system_calls"),
            *(
                Row(f"allocations of {way}()", "serial", ("penstock@penstock", way), cells="memory")
                for way in ("receive_into", "receive", "receive_available")
            ),
            Row("cancellation latency", "serial", (OWN_LOOP,), MEDIAN, "loop: cancel"),
            Row("regression threshold", reason="not a figure; `benchmarks/run.py compare` has one"),
        ),
    )
    yield Table(
        "anyserial",
        "Single-byte latency",
        tuple(
            row
            for operation in ("receive 1 B", "send 1 B")
            for metric in (MEDIAN, "max_us")
            for row in portal(operation, metric)
        ),
    )
    for heading, operations in (
        ("Bulk send", ("send 256 B", "send 4 KiB", "send 64 KiB")),
        ("Many ports", ("8 ports", "32 ports")),
        (
            "receive_available",
            ("receive_available 64 B", "receive_available 1 KiB", "receive_available 4 KiB"),
        ),
    ):
        yield Table("anyserial", heading, tuple(row for each in operations for row in portal(each)))
    yield from _anyserial_instrument()


def _anyserial_instrument() -> Iterator[Table]:
    polling, asyncio_loop = "serial_polling", ("in the event loop", "asyncio")
    yield Table(
        "anyserial",
        "Poll to frame, 500 iterations",
        (
            Row("pyserial (sync)", polling, NO_LOOP, MEDIAN, "frame", "pyserial"),
            Row("the same, one read", polling, NO_LOOP, MEDIAN, "frame", "pyserial, one read"),
            Row("anyserial async, no portal", polling, asyncio_loop, MEDIAN, "frame", "anyserial"),
            Row(
                "anyserial + BufferedByteReceiveStream",
                polling,
                ("BufferedByteReceiveStream", "asyncio"),
                MEDIAN,
                "frame",
                "anyserial",
            ),
            Row(
                "anyserial async (portal-wrapped)",
                polling,
                ("through a portal", "asyncio"),
                MEDIAN,
                "frame",
                "anyserial",
            ),
            Row("anyserial sync wrapper", polling, NO_LOOP, MEDIAN, "frame", "anyserial"),
            Row("pyserial-asyncio", polling, asyncio_loop, MEDIAN, "frame", "pyserial-asyncio"),
            Row("on the MFC behind a PL2303", reason=NO_HARDWARE),
        ),
    )
    in_loop, blocking = "loop: cancel", "blocking"
    yield Table(
        "anyserial",
        "Cancellation overshoot, 200 iterations",
        (
            *(
                Row(f"anyserial {name}", "serial", (loop,), MEDIAN, in_loop, "anyserial")
                for name, loop in LOOPS.items()
            ),
            Row("pyserial-asyncio", "serial", ("asyncio",), MEDIAN, in_loop, "pyserial-asyncio"),
            Row("pyserial timeout=", "serial", ("cancel",), MEDIAN, blocking, "pyserial"),
            Row("anyserial sync wrapper", "serial", ("cancel",), MEDIAN, blocking, "anyserial"),
        ),
    )
    yield Table(
        "anyserial",
        "Fan-out, 50 polls of each port",
        tuple(
            Row(f"{ports} devices, {name}", "serial", (ports, "a thread each"), "ms", "fan-out", to)
            for ports in ("1", "4", "16")
            for name, to in (
                ("anyserial", "anyserial@asyncio"),
                ("pyserial threaded", "pyserial"),
                ("the same, one read", "pyserial, one read"),
            )
        ),
    )
    lines = [(way, loop) for way in ("send", "receive") for loop in ("asyncio", "trio")]
    yield Table(
        "anyserial",
        "Windows serial pair, its scenarios on Linux",
        (
            Row("1 B round trip, asyncio", "serial", ("asyncio",), "p99_us", "loop: exchange"),
            Row("1 B round trip, trio", "serial", ("trio",), "p99_us", "loop: exchange"),
            *(
                Row(
                    f"4 KiB, 921,600 Bd, {way}, {loop}",
                    polling,
                    (way, loop),
                    "percent_of_line",
                    "line",
                )
                for way, loop in lines
            ),
            *(
                Row(f"{ports} ports: CPU a poll", polling, (ports,), "cpu_us_per_poll", "ports")
                for ports in ("8", "32", "128")
            ),
            *(
                Row(f"{ports} ports: threads", polling, (ports,), "threads", "ports")
                for ports in ("8", "32", "128")
            ),
            *(
                Row(f"open and close, {loop}", polling, ("open and close", loop), MEDIAN, "open")
                for loop in ("asyncio", "trio")
            ),
            Row("each of them on Windows, and on its Proactor", reason=NO_WINDOWS),
        ),
    )


def _alicatlib() -> Iterator[Table]:
    yield Table(
        "alicatlib",
        "Single-line query, n = 1000",
        (
            *(
                Row(f"VE, eager {eager}", "alicat", ("ve", eager), MEDIAN, "query", "alicatlib")
                for eager in ("off", "on")
            ),
            Row("on the M-series behind a PL2303", reason=NO_HARDWARE.replace("device", "port")),
        ),
    )
    names = {"CSV": "csv", "JSONL": "jsonl", "SQLite (WAL)": "sqlite"}
    names |= {f"Parquet ({codec})": f"parquet-{codec}" for codec in CODECS}
    for metric, heading in ((ROWS_RATE, "samples a second"), ("bytes_per_row", "bytes a sample")):
        yield Table(
            "alicatlib",
            f"Sinks and Parquet codecs, {heading}",
            tuple(
                Row(name, "sinks", (sink,), metric, "many", "alicatlib")
                for name, sink in names.items()
            ),
        )


CODECS = ("zstd", "snappy", "gzip", "none")
TABLES = (*_zloop(), *_cpp(), *_pyuring(), *_anyserial(), *_alicatlib())


def reproduced_text(results: Path) -> str:
    """The tables of all rows, with the figures of the pages that have results."""
    rows = [row for table in TABLES for row in table.rows]
    unreachable = sum(not row.page for row in rows)
    lacking = lacking_rows(results)
    parts = [
        f"{len(rows)} rows: {len(rows) - unreachable - len(lacking)} with results,"
        f" {len(lacking)} that have a place here and are not measured yet,"
        f" {unreachable} out of reach."
    ]
    loaded: dict[str, Any] = {}
    for table in TABLES:
        parts += [f"## {table.peer}: {table.heading}", _drawn(table, results, loaded)]
    return "\n\n".join(parts)


def lacking_rows(results: Path, pages: set[str] | None = None) -> list[str]:
    """The rows that have a place here and no results in it.

    Args:
        results: the folder of the results.
        pages: only these.
    """
    loaded: dict[str, Any] = {}
    return [
        f"{table.peer}, {table.heading}: {row.name} ({row.page})"
        for table in TABLES
        for row in table.rows
        if row.page
        and (pages is None or row.page in pages)
        and _found(row, results, loaded) is None
    ]


def _drawn(table: Table, results: Path, loaded: dict[str, Any]) -> str:
    lines, reasons = [], []
    for row in table.rows:
        if not row.page:
            reasons.append(f"- {row.name}: not measured; {row.reason}")
            continue
        found = _found(row, results, loaded)
        figures = _figures(row, found) if found else ("not yet", "", "", "", "")
        lines.append([row.name, f"[{figures[0]}]({row.page}.md)", *figures[1:]])
    header = ["row", "figure", "Penstock", "the other", "ratio", "floor"]
    drawn = [markdown_table(header, lines, labels=2, width=None)] if lines else []
    return "\n\n".join([*drawn, *(["\n".join(reasons)] if reasons else [])])


def plain_number(value: float) -> str:
    """Four digits without an exponent: "68,570", not "6.857e+04"."""
    return f"{float(f'{value:.4g}'):,.12g}"


def _figures(row: Row, found: Any) -> tuple[str, str, str, str, str]:
    if not row.metric:
        return (row.cells.replace("_", " "), "see there", "", "", "")
    peer = row.peer or found["best_peer"][row.metric]
    compared = found["penstock_to"][row.metric]
    ratio = better(row.metric, compared.get(peer))

    def median(name: str | None) -> str:
        values = found["contenders"].get(name, {}).get(row.metric)
        return "n/a" if values is None else plain_number(values["median"])

    return (
        with_unit(row.metric),
        median(OURS),
        f"{median(peer)} {peer or ''}".strip(),
        "" if ratio is None else figure(ratio, 2),
        median(FLOOR) if FLOOR in found["contenders"] else "",
    )


def _found(row: Row, results: Path, loaded: dict[str, Any]) -> Any:
    """The comparison of a row, or the other figures; None if there are none."""
    if row.page not in loaded:
        path = results / f"{row.page}.json"
        loaded[row.page] = json.loads(path.read_text()) if path.exists() else {}
    part = loaded[row.page].get(row.cells)
    if not row.metric:
        for key in row.labels:
            part = part.get(key) if part else None
        return part or None
    for cell in part or ():
        named = row.peer is None or row.peer in cell["contenders"]
        if tuple(cell["labels"]) == row.labels and named and row.metric in cell["penstock_to"]:
            return cell
    return None
