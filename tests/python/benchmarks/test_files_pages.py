"""The file pages: each contender does the work, and wrong bytes are detected."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import file_io
from benchmarks.file_peers import PEERS, import_peer
from benchmarks.file_peers.peer import Data
from benchmarks.file_peers.plain_os import Files as PlainFiles
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.file_stand import Sample
from benchmarks.measure.native import BENCHMARKS, SOURCE
from benchmarks.measure.rounds import Outcome
from benchmarks.measured_program import Unavailable
from benchmarks.pages import files, files_pyuring

PROGRAM = str(BENCHMARKS / "file_io.py")
BUILT = importlib.util.find_spec("penstock._core") is not None
OWN = "penstock,os" if BUILT else "os"
needs_floor = pytest.mark.skipif(
    not (SOURCE / "file_floor.cpp").exists(), reason="the floor in C++ is not there"
)
TINY = ["--files", "3", "--size", "262144", "--seconds", "0", "--warmup", "0", "--once"]

WORKLOADS = {
    "cached-reads": 64,
    "small-files": 3,
    "write": 3,
    "read": 3,
    "write-read": 3,
    "log": 200,
}


def measure(peer: str, workload: str, folder: Path, *options: str) -> dict[str, Any] | str:
    """The figures of a tiny round, or a sentence if the peer cannot do it."""
    command = [sys.executable, PROGRAM, "--peer", peer, "--workload", workload]
    done = subprocess.run(
        [*command, "--folder", str(folder), *TINY, *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 69:
        return done.stderr.splitlines()[-1]
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("peer", ["penstock", "os"])
def test_a_round_does_its_work(peer: str, workload: str, tmp_path: Path) -> None:
    if peer == "penstock" and not BUILT:
        pytest.skip("penstock._core is not built")
    options = ["--block", "65536"] if workload == "write-read" else []
    figures = measure(peer, workload, tmp_path, *options)
    assert isinstance(figures, dict), figures
    assert figures["operations"] == WORKLOADS[workload]
    assert 0 < figures["seconds"] <= figures["end"] - figures["begin"] + 0.1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("peer", ["penstock", "os"])
def test_phases_are_timed_apart(peer: str, tmp_path: Path) -> None:
    if peer == "penstock" and not BUILT:
        pytest.skip("penstock._core is not built")
    figures = measure(peer, "phases", tmp_path, "--block", "65536", "--clear-cache")
    assert isinstance(figures, dict), figures
    written, read = figures["write"], figures["read"]
    assert written["operations"] == read["operations"] == 3
    assert 0 < written["begin"] < written["end"] <= read["begin"] < read["end"]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("peer", [name for name in PEERS if name not in ("penstock", "os")])
def test_a_peer_that_is_here_reads_and_writes_right(peer: str, tmp_path: Path) -> None:
    """Whole files if a peer has nothing else; each checks what it has read and written."""
    try:
        import_peer(peer)
    except Unavailable as missing:
        pytest.skip(str(missing))
    figures = measure(peer, "write-read", tmp_path)
    assert isinstance(figures, dict), figures
    assert figures["operations"] == 3


@pytest.mark.parametrize("peer", ["pyuring", "aiofiles", "anyio@uvloop", "aiofiles@penstock"])
@pytest.mark.parametrize("workload", ["direct-reads", "cached-reads"])
def test_a_peer_that_is_here_reads_in_blocks(peer: str, workload: str, tmp_path: Path) -> None:
    try:
        import_peer(peer)
    except Unavailable as missing:
        pytest.skip(str(missing))
    figures = measure(peer, workload, tmp_path, "--size", str(1 << 20))
    if isinstance(figures, str) and "O_DIRECT" in figures:
        pytest.skip(figures)
    assert isinstance(figures, dict), figures
    assert figures["operations"] % 256 == 0


class Forgetful(PlainFiles):
    """Reads the right number of wrong bytes."""

    async def read_whole(self, path: str) -> bytes:
        return bytes(len(await super().read_whole(path)))


class Lazy(PlainFiles):
    """Reads nothing, fast."""

    async def read_regions(self, path: str, size: int, block: int, depth: int) -> int:
        return 0


class Careless(PlainFiles):
    """Omits the end of each file except in files that are compared."""

    def __init__(self) -> None:
        self.calls = 0

    async def write_whole(self, path: str, data: Data) -> None:
        self.calls += 1
        await super().write_whole(path, data if self.calls <= 3 else data[:-1])

    async def read_length(self, path: str) -> int:
        return 1 << 18


def test_what_is_written_in_the_timed_part_is_compared(tmp_path: Path) -> None:
    options = argparse.Namespace(
        workload="phases", size=1 << 18, files=3, block=0, seconds=0, warmup=0, once=True
    )
    options.clear_cache = False
    work = file_io.Work(Careless(), tmp_path, options)
    with pytest.raises(file_io.Wrong, match="written wrong"):
        asyncio.run(file_io.timed_phases(work, options))


@pytest.mark.parametrize("peer", [Forgetful, Lazy])
def test_a_peer_that_does_not_do_the_work_is_not_measured(
    peer: type[PlainFiles], tmp_path: Path
) -> None:
    options = argparse.Namespace(
        workload="cached-reads", size=1 << 20, files=1, block=0, seconds=0, warmup=0, once=True
    )
    work = file_io.Work(peer(), tmp_path, options)
    with pytest.raises(file_io.Wrong):
        asyncio.run(file_io.timed(work, options))


@needs_floor
def test_the_page_has_every_row_and_its_ratios(
    measure_page: Callable[..., tuple[dict[str, Any], str]], tmp_path: Path
) -> None:
    results, printed = measure_page(
        *("files", "--rounds", "1", "--seconds", "0.02", "--warmup", "0", "--peers", OWN),
        *("--work", "log,ticker", "--folder", str(tmp_path), "--quick"),
    )
    (cell,) = results["cells"]
    for name in ("floor", *OWN.split(",")):
        assert cell["contenders"][name]["wall_us_per_operation"]["low"] > 0
    (latency,) = results["latency"]
    assert latency["contenders"]["os"]["p99_ms"]["median"] > 0
    assert "| late by, ms" in printed
    if BUILT:
        assert cell["penstock_to"]["wall_us_per_operation"]["os"]["median"] > 0
        assert cell["best_peer"]["wall_us_per_operation"] == "os"


@needs_floor
def test_pyurings_table_counts_system_calls(
    measure_page: Callable[..., tuple[dict[str, Any], str]], tmp_path: Path
) -> None:
    results, printed = measure_page(
        *("files_pyuring", "--rounds", "1", "--seconds", "0.02", "--warmup", "0"),
        *("--num-files", "2", "--file-size-mb", "1", "--peers", OWN, "--folder", str(tmp_path)),
    )
    assert [cell["labels"] for cell in results["cells"]] == [
        ["2 × 1 MiB", blocks, phase]
        for blocks in ("64 KiB", "whole")
        for phase in ("write", "read")
    ]
    assert [cell["labels"] for cell in results["together"]] == [
        ["2 × 1 MiB", "64 KiB"],
        ["2 × 1 MiB", "whole"],
    ]
    for name in OWN.split(","):
        write, read = (
            cell["contenders"][name]["wall_us_per_file"]["median"] for cell in results["cells"][:2]
        )
        together = results["together"][0]["contenders"][name]["wall_us_per_file"]["median"]
        assert together == pytest.approx(write + read)
    calls = results["syscalls"][0]["os"]
    # Each file has sixteen blocks.
    assert calls["write"] >= 16
    assert results["syscalls"][1]["os"]["pread64"] >= 16
    assert "System calls per file" in printed


@needs_floor
def test_pyurings_table_with_o_direct_has_no_floor(
    measure_page: Callable[..., tuple[dict[str, Any], str]], tmp_path: Path
) -> None:
    results, _ = measure_page(
        *("files_pyuring", "--rounds", "1", "--seconds", "0.02", "--warmup", "0", "--no-syscalls"),
        *("--num-files", "2", "--file-size-mb", "1", "--odirect", "--qd", "4"),
        *("--peers", "penstock,os", "--folder", str(tmp_path)),
    )
    assert [set(cell["contenders"]) for cell in results["cells"]] == [{"penstock", "os"}] * 4


DIRECT = "50 × 20 MiB, O_DIRECT, 64 in flight"


def test_the_tables_of_that_page_are_the_default_and_its_options_replace_them() -> None:
    def cells(*arguments: str) -> list[tuple[str, ...]]:
        parser = argparse.ArgumentParser()
        files_pyuring.add_options(parser)
        return [cell.labels for cell in files_pyuring._cells(parser.parse_args(arguments))]

    assert {labels[0] for labels in cells()} == {"8 × 2 MiB", "100 × 10 MiB", DIRECT}
    assert {labels[0] for labels in cells("--num-files", "50", "--file-size-mb", "20")} == {
        "50 × 20 MiB"
    }


def test_a_large_set_is_measured_in_fewer_rounds_and_the_caption_says_so() -> None:
    parser = argparse.ArgumentParser()
    files_pyuring.add_options(parser)
    for rounds, caption in ((2, ""), (5, f" (100 × 10 MiB: 2, {DIRECT}: 2)")):
        options = parser.parse_args(["--rounds", str(rounds)])
        cells = files_pyuring._cells(options)
        assert {cell.labels[0]: cell.rounds(rounds) for cell in cells} == {
            "8 × 2 MiB": rounds,
            "100 × 10 MiB": 2,
            DIRECT: 2,
        }
        assert files_pyuring._fewer_rounds(cells, options) == caption


def test_a_contender_that_is_only_shown_is_no_peer() -> None:
    def outcome(seconds: float) -> Outcome[Sample]:
        return Outcome([Sample(1, seconds, seconds)])

    names: Sequence[str] = ("floor", "penstock", "penstock-threads", "pyuring-page", "os")
    comparison = Comparison(("x",), {name: outcome(1 + i) for i, name in enumerate(names)})
    assert comparison.peers() == ["os"]
    assert comparison.best_peer(files.WALL) == "os"
