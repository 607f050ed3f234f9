"""``files.scan``: the entries of a folder with the contents of its files."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from penstock import files
from tests.python.files.child_script import run_script

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]


async def found_in(folder: Path, **options: int) -> dict[str, tuple[str, bytes | None]]:
    entries = [entry async for entry in files.scan(folder, **options)]
    found = {name: (kind, content) for name, kind, content in entries}
    assert len(found) == len(entries)
    return found


async def test_every_file_comes_once_with_its_content(tmp_path: Path) -> None:
    # Several batches of names, and of bytes.
    sizes = [(7919 * number) % 5000 for number in range(700)] + [0, 4096, 4097, 300_000, 1_000_000]
    expected = {}
    for number, size in enumerate(sizes):
        name = f"{number} {'ä' * (number % 40)}"
        content = bytes([number % 256]) * size
        (tmp_path / name).write_bytes(content)
        expected[name] = ("file", content)
    assert await found_in(tmp_path, contents=True) == expected
    names = await found_in(tmp_path)
    assert names == dict.fromkeys(expected, ("file", None))


async def test_what_is_no_file_has_no_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    os.symlink("file", tmp_path / "link")
    os.symlink("nowhere", tmp_path / "broken")
    os.mkfifo(tmp_path / "fifo")
    assert await found_in(tmp_path, contents=True) == {
        "file": ("file", b"content"),
        "folder": ("folder", None),
        "link": ("link", None),
        "broken": ("link", None),
        "fifo": ("other", None),
    }
    assert await found_in(tmp_path / "folder", contents=True) == {}


async def test_a_file_is_read_up_to_the_largest_size(tmp_path: Path) -> None:
    for size in (99, 100, 101, 900_000):
        (tmp_path / str(size)).write_bytes(bytes(size))
    found = await found_in(tmp_path, contents=True, largest=100)
    assert {name for name, (_, content) in found.items() if content is None} == {"101", "900000"}
    assert found["100"] == ("file", bytes(100))
    found = await found_in(tmp_path, contents=True, largest=899_999)
    assert found["900000"] == ("file", None)
    assert found["101"] == ("file", bytes(101))
    with pytest.raises(ValueError, match="-1 is negative"):
        files.scan(tmp_path, largest=-1)


async def test_files_of_the_kernel_are_read_to_their_end() -> None:
    # They have no size, and a read returns a part.
    found = await found_in(Path("/proc/self/net"), contents=True)
    assert found["dev"][1] is not None
    limits = [each async for each in files.scan("/proc/sys/kernel/random", contents=True)]
    assert any(each.name == "boot_id" and each.content for each in limits)


async def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, expected in (("missing", FileNotFoundError), ("file", NotADirectoryError)):
        with pytest.raises(expected) as raised:
            await found_in(tmp_path / name)
        assert raised.value.filename == str(tmp_path / name)


async def test_a_file_that_cannot_be_read_is_named_after_those_before_it() -> None:
    # The memory of a process is a file that cannot be read at its beginning.
    seen = []
    with pytest.raises(OSError) as raised:
        async for entry in files.scan("/proc/self", contents=True, largest=10_000):
            seen.append(entry.name)
    folder, failed = os.path.split(raised.value.filename)
    assert folder == "/proc/self"
    names = os.listdir("/proc/self")
    assert seen == names[: names.index(failed)]


async def test_what_is_taken_ahead_is_bounded(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / str(number)).write_bytes(bytes(300_000))
    scan = files.scan(tmp_path, contents=True)
    taken = [await anext(scan)]
    # The worker has read a part: what is removed now was not read, and is left out.
    for number in range(40):
        (tmp_path / str(number)).unlink()
    taken += [entry async for entry in scan]
    assert 1 <= len(taken) < 40
    assert all(entry.content == bytes(300_000) for entry in taken)


async def test_a_scan_that_ends_early_or_is_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / str(number)).write_bytes(b"content")
    async with files.scan(tmp_path, contents=True) as scan:
        async for entry in scan:
            assert entry.content == b"content"
            break
    scan = files.scan(tmp_path, contents=True)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anext(scan)
    with pytest.raises(RuntimeError, match="cancelled"):
        await anext(scan)


def test_a_program_may_end_while_a_worker_scans(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / str(number)).write_bytes(bytes(20_000))
    ended = run_script(f"""
        import asyncio, sys
        import penstock
        from penstock import files

        async def main():
            task = asyncio.ensure_future(anext(files.scan({str(tmp_path)!r}, contents=True)))
            await asyncio.sleep(0)
            sys.exit(3)

        penstock.run(main())
    """)
    assert (ended.returncode, ended.stderr) == (3, "")
