"""Recordings with flipped bytes and cut ends, through every command that reads them.

A damaged file may be unreadable, in part or in whole. It may never crash the process, hang it,
print a traceback, or be called a defect of Penstock. Each child process works on many copies, so a
crash is seen and the copy is known; what the commands import, its parent has imported.

::

    python -m tests.python.record.damaged_recordings 2000 500 tests/results/damaged_recordings.json

Names of recordings and of commands behind the file choose these only. The results of the others
stay in the file, if they are of as many copies.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import io
import json
import mmap
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import pyarrow

import penstock.record
from penstock.cli import _parser, main
from penstock.dash import Board
from penstock.dash._stored import StoredRows, read_first
from penstock.record import (
    ArrowSink,
    ColumnBuffer,
    CsvSink,
    Field,
    JsonlSink,
    ParquetSink,
    RecordError,
    RecordSchema,
    SampleBatch,
    SqliteSink,
)
from penstock.record.sink_choice import sink_for
from penstock.record.view import open_recording

_ALLOWED = {
    "verify": {0, 5, 8},
    "verify deeply": {0, 5, 8},
    "plot": {0, 5},
    "export": {0, 5},
    "query": {0, 5},
    "dash": {0, 1},
    "resume": {0, 1},
    "recover": {0, 5},
    "open": {0, 1},
    "open tolerantly": {0, 1},
}
COMMANDS = (*_ALLOWED,)
"""In this order on one copy. ``recover`` changes it; ``resume`` has another one."""
_MIXED_UNITS = re.compile(r" is in .* and later in ")
_COPIES_A_CHILD = 100
_SECONDS_A_COPY = 300
_MEMORY = "/dev/shm"  # where a sync costs nothing; damage is all that is asked about
_TEXT = 4096
_ABOUT = {
    "rate_hz": 10,
    "run_id": "r",
    "devices": {"fuel": {"rate_hz": 10}, "air": {"rate_hz": 10}},
}
_SCHEMA = RecordSchema(
    (
        Field("Flow", "float", "SCCM"),
        Field("Count", "int"),
        Field("Gas", "text"),
        Field("Open", "bool"),
        Field("event", "text"),
        Field("message", "text"),
    ),
    json.dumps(_ABOUT),
)
_NOON_NS = 1_795_262_400_000_000_000
_ROWS = 300
_MORE_ROWS = 10


def _moment_of(number: int) -> int:
    """When row ``number`` was asked for; it came 4.123 ms later."""
    return number // 2 * 100_000_000


def _batch(first: int, rows: int) -> SampleBatch:
    buffer = ColumnBuffer(_SCHEMA)
    for number in range(first, first + rows):
        moment = _moment_of(number)
        values: dict[str, Any] = {
            "Flow": number / 4,
            "Count": number,
            "Gas": "N2",
            "Open": number % 3 == 0,
        }
        error = 'TimeoutError: "no, reply"\nafter 0.5 s' if number % 50 == 7 else None
        buffer.append_row(
            "fuel" if number % 2 else "air",
            "A",
            _NOON_NS + moment,
            _NOON_NS + moment + 4_123_000,
            moment,
            moment + 4_123_000,
            {} if error else values,
            None if error else "HLD" if number % 40 == 0 else "",
            error,
        )
    return SampleBatch.from_buffer(buffer)


@dataclass(frozen=True)
class Original:
    """A sound recording: what is copied, what is opened, and which files are damaged."""

    name: str
    folder: Path
    opened: str
    victims: str

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.folder, to)
        return to / self.opened

    def files(self, copy: Path) -> list[Path]:
        found = sorted(each for each in copy.glob(self.victims) if each.is_file())
        assert found, self.name
        return found


def originals(folder: Path) -> list[Original]:
    """A recording of each format, closed, and three that were killed."""
    kinds: dict[str, tuple[Callable[[Path], Any], str, str]] = {
        "csv": (CsvSink, "run.csv", "run.csv*"),
        "jsonl": (JsonlSink, "run.jsonl", "run.jsonl"),
        "sqlite": (SqliteSink, "run.sqlite", "run.sqlite"),
        "parquet": (ParquetSink, "run.parquet", "run.parquet"),
        "arrow": (ArrowSink, "run.arrow", "run.arrow"),
        "parts": (lambda path: ParquetSink(path, part_rows=100), "run", "run/*.parquet"),
    }
    killed: dict[str, tuple[Callable[[Path], Any], str, str]] = {
        "journal": (
            lambda path: ParquetSink(path, loss_rows=0, seal_interval=1000),
            "run.parquet",
            "run.parquet.parts/.penstock/journal*",
        ),
        "Arrow parts": (
            lambda path: ArrowSink(path, loss_rows=0, part_rows=100),
            "run.arrow",
            "run.arrow.parts/*.arrow",
        ),
        "log of SQLite": (
            lambda path: SqliteSink(path, loss_rows=0),
            "run.sqlite",
            "run.sqlite-wal",
        ),
    }
    for name, (kind, opened, _) in {**kinds, **killed}.items():
        live = folder / name / "live"
        live.mkdir(parents=True)

        async def record(kind: Any = kind, at: Path = live / opened, name: str = name) -> None:
            async with kind(at) as sink:
                for first in range(0, _ROWS, 50):
                    await sink.write_batch(_batch(first, 50))
                if name in killed:
                    # As a kill leaves it, without the locks.
                    shutil.copytree(at.parent, at.parent.with_name("kept"))

        anyio.run(record)
        if name not in killed:
            live.rename(live.with_name("kept"))
    return [
        Original(name, folder / name / "kept", opened, victims)
        for name, (_, opened, victims) in {**kinds, **killed}.items()
    ]


def damage(path: Path, choice: random.Random, *, cut: bool) -> None:
    """Flip 1 to 20 bytes of a file, or cut it off."""
    data = bytearray(path.read_bytes())
    if cut:
        del data[choice.randrange(len(data)) :]
    else:
        for _ in range(choice.randint(1, 20)):
            data[choice.randrange(len(data))] ^= choice.randint(1, 255)
    path.write_bytes(data)


class Notes:
    """What a child process has come to, known to its parent also when it crashes."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _TEXT)

    def say(self, text: str) -> None:
        self._memory[:] = text.encode()[:_TEXT].ljust(_TEXT, b"\0")

    def __str__(self) -> str:
        return self._memory[:].rstrip(b"\0").decode(errors="replace")


def _open(path: Path, *, strict: bool) -> int:
    try:
        recording = penstock.record.open(path, strict=strict)
        recording.to_arrow().validate(full=True)
    except RecordError as error:
        print(error)
        return 1
    return 0


def _resume(path: Path) -> int:
    """Continue a recording, as ``penstock record --resume`` does, and read what was added."""

    async def record(path: Path) -> None:
        async with sink_for(path, append=True) as sink:
            await sink.write_batch(_batch(_ROWS, _MORE_ROWS))

    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(path.parent, Path(folder, "copy")) / path.name
        try:
            anyio.run(record, copy)
        except RecordError as error:
            print(error)
            return 1
        table = penstock.record.open(copy, strict=False).to_arrow()
        last = _moment_of(_ROWS + _MORE_ROWS - 1) + 4_123_000
        assert last in table["t_mono_ns"].to_pylist(), "the rows that were added are not read"
    return 0


def _show(path: Path) -> int:
    """Put a recording on a board, as ``penstock dash`` does before it serves it."""

    async def show() -> None:
        await read_first(Board(str(path)), StoredRows(open_recording(path, strict=False)))

    try:
        anyio.run(show)
    except RecordError as error:
        print(error)
        return 1
    return 0


def _query(path: Path) -> int:
    out = path.parent / "answer.csv"
    return main(["query", str(path), "SELECT * FROM recording", "--out", str(out)])


def _run(command: str, path: Path) -> tuple[int, str]:
    """The code of a command and what it prints; anything it raises is one too."""
    out = io.StringIO()
    in_process: dict[str, Callable[[Path], int]] = {
        "open": partial(_open, strict=True),
        "open tolerantly": partial(_open, strict=False),
        "resume": _resume,
        "dash": _show,
        "query": _query,
        "verify deeply": lambda path: main(["verify", "--deep", str(path)]),
        "export": lambda path: main(["export", str(path), str(path.parent / "out.csv")]),
    }
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            if command in in_process:
                code = in_process[command](path)
            else:
                code = main([command, str(path)])
        except BaseException:
            return -1, out.getvalue() + traceback.format_exc()
    return code, out.getvalue()


def judge(command: str, code: int, text: str) -> str:
    """What is wrong with the answer of a command; empty if nothing is."""
    if "Traceback" in text or "defect of Penstock" in text:
        return f"{command}: {text[-1500:]}"
    if code not in _ALLOWED[command] and not (code == 2 and _MIXED_UNITS.search(text)):
        return f"{command} ends with {code}: {text[-500:]}"
    if code in (1, 2, 5) and not text.strip():
        return f"{command} ends with {code} and says nothing"
    return ""


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)


@dataclass(frozen=True)
class Trial:
    """Copies of one recording, damaged in one way, and the commands that they go through."""

    original: Original
    commands: tuple[str, ...]
    seed: str
    cut: bool


def _work(trial: Trial, numbers: range, notes: Notes, to: int) -> None:
    """Do all commands on the copies ``numbers``, and send what came out to ``to``."""
    original = trial.original
    results: collections.Counter[str] = collections.Counter()
    faults = []
    # The grammar of the command line has nothing to do with a file, and takes half of the time.
    once = mock.patch.object(_parser, "build_parser", return_value=_parser.build_parser())
    # Threads of a small file only wait for each other, and there are other child processes.
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    with once, _folder() as folder:
        for number in numbers:
            signal.alarm(_SECONDS_A_COPY)
            choice = random.Random(f"{trial.seed} {original.name} {trial.cut} {number}")
            path = original.copy(Path(folder, str(number)))
            damage(choice.choice(original.files(path.parent)), choice, cut=trial.cut)
            for command in trial.commands:
                how = "cut" if trial.cut else "flipped"
                notes.say(f"{original.name}, {how}, copy {number}, {command}")
                code, text = _run(command, path)
                results[f"{command}: {code}"] += 1
                if fault := judge(command, code, text):
                    faults.append(f"{notes}: {fault}")
            shutil.rmtree(path.parent)
    with os.fdopen(to, "w") as file:
        json.dump([results, faults], file)


def examine(trial: Trial, count: int) -> tuple[Any, list[str]]:
    """The codes of all commands on ``count`` damaged copies, and what was wrong."""
    results: collections.Counter[str] = collections.Counter()
    faults: list[str] = []
    for first in range(0, count, _COPIES_A_CHILD):
        numbers = range(first, min(count, first + _COPIES_A_CHILD))
        while numbers:
            notes = Notes()
            source, to = os.pipe()
            child = os.fork()
            if not child:
                code = 1
                try:
                    os.close(source)
                    _work(trial, numbers, notes, to)
                    code = 0
                finally:
                    os._exit(code)
            os.close(to)
            with os.fdopen(source) as file:
                text = file.read()
            _, status = os.waitpid(child, 0)
            if not status:
                found, wrong = json.loads(text)
                results.update(found)
                faults += wrong
                break
            ended = os.waitstatus_to_exitcode(status)
            faults.append(f"{notes}: the process ended with {ended}")
            stopped = re.search(r"copy (\d+)", str(notes))
            numbers = range(int(stopped[1]) + 1, numbers.stop) if stopped else range(0)
    return dict(sorted(results.items())), faults


def run(
    flipped: int, truncated: int, seed: str, only: Collection[str]
) -> Iterator[tuple[str, Any]]:
    """The results of each recording by its name; ``only`` has recordings and commands."""
    commands = tuple(command for command in COMMANDS if command in only) or COMMANDS
    names = {*only}.difference(COMMANDS)
    with _folder() as folder:
        for original in originals(Path(folder)):
            if names and original.name not in names:
                continue
            for command in commands:
                sound = original.copy(Path(folder, "sound"))
                code, text = _run(command, sound)
                assert code == 0, (original.name, command, text)
                shutil.rmtree(sound.parent)
            gc.collect()
            gc.freeze()  # A child does not copy what its parent has imported.
            codes, faults = examine(Trial(original, commands, seed, cut=False), flipped)
            cut_codes, cut_faults = examine(Trial(original, commands, seed, cut=True), truncated)
            gc.unfreeze()
            yield (
                original.name,
                {
                    "flipped": {"copies": flipped, "codes": codes},
                    "truncated": {"copies": truncated, "codes": cut_codes},
                    "faults": faults + cut_faults,
                },
            )


def joined(known: Any, new: Any) -> Any:
    """New results of a recording with the known ones of other commands on as many copies."""
    ways = ("flipped", "truncated")
    if known is None or any(known[way]["copies"] != new[way]["copies"] for way in ways):
        return new
    result: dict[str, Any] = {}
    done = set()
    for way in ways:
        done |= {code.partition(":")[0] for code in new[way]["codes"]}
        codes = {
            code: count
            for code, count in known[way]["codes"].items()
            if code.partition(":")[0] not in done
        }
        result[way] = {
            "copies": new[way]["copies"],
            "codes": dict(sorted({**codes, **new[way]["codes"]}.items())),
        }
    # "csv, flipped, copy 7, query: query ends with 1"
    others = [f for f in known["faults"] if re.split(", |: ", f)[3] not in done]
    result["faults"] = others + new["faults"]
    return result


def _main() -> int:
    flipped, truncated, *rest = sys.argv[1:]
    out = Path(rest.pop(0)) if rest and rest[0].endswith(".json") else None
    results = json.loads(out.read_text()) if out is not None and out.exists() else {}
    faults = 0
    for name, result in run(int(flipped), int(truncated), "1", rest):
        results[name] = joined(results.get(name), result)
        faults += len(result["faults"])
        print(f"{name}: {len(result['faults'])} faults", flush=True)
        for fault in result["faults"][:5]:
            print(f"  {fault}", flush=True)
        if out is not None:
            out.write_text(json.dumps(results, indent=2) + "\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(_main())
