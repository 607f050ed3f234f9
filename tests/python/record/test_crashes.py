"""Kills, full disks and syncs, for every sink that writes files.

``make soak`` kills at every call that changes a file, and 200 times at random moments.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

pytest.importorskip("pyarrow")

import penstock.record
from penstock.record import SinkWriteError, recover
from penstock.record.sink_choice import sink_for
from tests.python.record.batches import flow_batch
from tests.python.record.crashes import NAMES
from tests.python.record.traced_recorders import has_strace

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


def in_process_of_its_own(code: str, *arguments: str) -> None:
    """Run ``code`` where there is one thread: it forks."""
    modules = ("crashes", "traced_recorders")
    imports = "".join(f"from tests.python.record.{name} import *\n" for name in modules)
    program = imports + textwrap.dedent(code)
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl", "run.parquet", "run"])
def test_a_kill_in_a_call_that_changes_a_file_loses_nothing(tmp_path: Path, name: str) -> None:
    code = """
    import sys
    from pathlib import Path
    number = int(sys.argv[3])
    while kill_at_call(sys.argv[1], number, Path(sys.argv[2])):
        number += 10
    """
    in_process_of_its_own(code, name, str(tmp_path), str(random.randint(1, 10)))


def test_kills_at_random_moments_lose_at_most_the_window(tmp_path: Path) -> None:
    code = """
    import random, sys
    from pathlib import Path
    chance = random.Random(sys.argv[2])
    for kill in range(12):
        kill_at_random(NAMES[kill % len(NAMES)], chance, Path(sys.argv[1]))
    """
    in_process_of_its_own(code, str(tmp_path), str(random.random()))


def test_a_kill_in_a_system_call_of_sqlite_loses_nothing(tmp_path: Path) -> None:
    if not has_strace():
        pytest.skip("strace is not installed, or may not trace here")
    code = """
    import random, sys
    from pathlib import Path
    for call, most in (("pwrite64", 35), ("fdatasync", 15), ("ftruncate", 3), ("unlink", 3)):
        assert kill_at_system_call("run.sqlite", call, random.randint(1, most), Path(sys.argv[1]))
    """
    in_process_of_its_own(code, str(tmp_path))


def test_a_disk_that_fails_from_some_call_on_keeps_every_durable_row(tmp_path: Path) -> None:
    if not has_strace():
        pytest.skip("strace is not installed, or may not trace here")
    code = """
    import random, sys
    from pathlib import Path
    for name in NAMES:
        errno = random.choice(["EROFS", "EIO"])
        refuse_from_system_call(name, errno, random.randint(1, 12), Path(sys.argv[1]))
    # Only the side file was made, and stays.
    refuse_from_system_call("run.csv", "EIO", 2, Path(sys.argv[1]))
    """
    in_process_of_its_own(code, str(tmp_path))


def test_a_recorder_into_postgresql_that_is_killed_loses_at_most_the_window(
    tmp_path: Path,
) -> None:
    pytest.importorskip("psycopg")
    code = """
    import random, sys
    from pathlib import Path
    import pytest
    from tests.python.integration.postgres import postgres_server
    from tests.python.record.postgres_recorders import *
    root = Path(sys.argv[1])
    try:
        with postgres_server() as server:
            assert kill_at_spool_call(server, random.randint(1, 3), root)
            for _ in range(3):
                kill_at_random_beside_a_server(server, random.Random(), root)
    except pytest.skip.Exception:
        pass  # no server here; the tests of the sink say so
    """
    in_process_of_its_own(code, str(tmp_path))


SYNCED = """
import os, sys
import anyio
from penstock.record.sink_choice import sink_for
from tests.python.record.batches import flow_batch

async def main():
    sink = sink_for(sys.argv[1], loss_interval=0.2)
    await sink.open()
    await sink.write_batch(flow_batch(0))
    os.write(2, b"MARK accepting\\n")
    await sink.write_batch(flow_batch(10))
    assert sink.rows_at_risk == 10
    while sink.rows_at_risk:
        await anyio.sleep(0.01)
    os.write(2, b"MARK durable\\n")
    await sink.close()

anyio.run(main)
"""


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_synced_within_the_window_without_a_further_call(
    tmp_path: Path, name: str
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "log"
    traced = "trace=write,pwrite64,fsync,fdatasync"
    ran = subprocess.run(
        [
            *("strace", "-f", "-y", "-o", str(log), "-e", traced),
            *(sys.executable, "-c", SYNCED, str(tmp_path / name)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = log.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if "MARK accepting" in line)
    end = next(i for i, line in enumerate(lines) if "MARK durable" in line)
    ours = re.escape(str(tmp_path / name))
    # The journal of the parts, the log of the database, or the file.
    writes, syncs = {}, {}
    for number, line in enumerate(lines[begin:end]):
        if found := re.search(rf"(write|pwrite64)\(\d+<({ours}[^>]*)>", line):
            writes[found[2]] = number
        if found := re.search(rf"f(?:data)?sync\(\d+<({ours}[^>]*)>", line):
            syncs[found[1]] = number
    data = [path for path in writes if not path.endswith("-shm")]
    assert data, "the rows were written"
    # Seals are synced once a second: they prove rows, and hold none.
    for path in data:
        if not path.endswith(".seals"):
            assert syncs.get(path, -1) > writes[path], path
    results = [line for line in lines[begin:end] if re.search(r"f(data)?sync.*\) += 0", line)]
    assert results


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_keeps_every_durable_row(small_disk: Path, name: str) -> None:
    path = small_disk / name

    async def fill() -> int:
        sink = sink_for(path, loss_rows=0)
        await sink.open()
        rows = 0
        with pytest.raises(SinkWriteError, match=r"free some space"):
            while True:
                await sink.write_batch(flow_batch(100, first=rows))
                rows += 100
        with contextlib.suppress(SinkWriteError):
            await sink.close()
        return rows

    rows = anyio.run(fill)
    assert rows >= 100
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    recover(path)

    async def resume(first: int) -> None:
        async with sink_for(path, append=True) as sink:
            await sink.write_batch(flow_batch(100, first=first))

    kept = penstock.record.open(path).to_arrow()["Mass_Flow"].to_pylist()
    assert len(kept) >= rows
    anyio.run(resume, len(kept))
    again = penstock.record.open(path).to_arrow()["Mass_Flow"].to_pylist()
    assert again == [float(n) for n in range(len(kept) + 100)]


@pytest.mark.parametrize("name", NAMES)
def test_a_read_only_disk_is_one_sentence(small_disk: Path, name: str) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    async def main() -> None:
        with pytest.raises(SinkWriteError, match="read-only: choose another folder"):
            await sink_for(small_disk / name).open()

    anyio.run(main)
