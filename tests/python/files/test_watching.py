"""``files.watch``: what changes below folders, on every loop."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from penstock.files import Change
from penstock.files._watching import inotify
from penstock.files._watching.changes import Changes
from penstock.files._watching.folders import WatchedFolders

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]

Found = set[tuple[Change, str]]


async def within(awaitable: Awaitable[Any]) -> Any:
    """Await, but not forever if a change is missed."""
    with anyio.fail_after(30):
        return await awaitable


async def until(changes: files.Watch, wanted: Found) -> Found:
    """Collect changes until all that are wanted have come."""
    found: Found = set()
    while not wanted <= found:
        found |= await within(anext(changes))
    return found


async def test_changes_are_reported(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "gone").touch()
    async with files.watch(tmp_path) as changes:
        (tmp_path / "new").write_text("x")
        (tmp_path / "old").write_text("y")
        (tmp_path / "gone").unlink()
        assert await within(anext(changes)) == {
            (Change.added, str(tmp_path / "new")),
            (Change.modified, str(tmp_path / "old")),
            (Change.deleted, str(tmp_path / "gone")),
        }
        (tmp_path / "new").rename(tmp_path / "moved")
        assert await within(anext(changes)) == {
            (Change.deleted, str(tmp_path / "new")),
            (Change.added, str(tmp_path / "moved")),
        }
        (tmp_path / "moved").chmod(0o600)
        assert await within(anext(changes)) == {(Change.modified, str(tmp_path / "moved"))}


async def test_the_numbers_are_those_of_watchfiles() -> None:
    assert [Change.added, Change.modified, Change.deleted] == [1, 2, 3]
    assert Change.added.raw_str() == "added"


@pytest.mark.parametrize("step", [0, 5])
async def test_folders_made_in_a_race_are_reported_whole(tmp_path: Path, step: int) -> None:
    expected: Found = set()

    def make() -> None:
        for number in range(30):
            folder = tmp_path / f"{number}" / "a" / "b"
            folder.mkdir(parents=True)
            for path in (folder.parent.parent, folder.parent, folder, folder / "file"):
                expected.add((Change.added, str(path)))
            (folder / "file").touch()

    counted: dict[tuple[Change, str], int] = {}
    async with files.watch(tmp_path, step=step) as changes, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: anyio.to_thread.run_sync(make))
        while len(expected) < 120 or not expected <= counted.keys():
            for each in await within(anext(changes)):
                counted[each] = counted.get(each, 0) + 1
    added = {each: count for each, count in counted.items() if each[0] is Change.added}
    assert added == dict.fromkeys(expected, 1)


async def test_a_folder_that_is_moved_is_followed(tmp_path: Path) -> None:
    (tmp_path / "top/one/inner").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    top = tmp_path / "top"
    async with files.watch(top, step=0) as changes:
        (top / "one").rename(top / "two")
        await until(changes, {(Change.added, str(top / "two/inner"))})
        (top / "two/inner/file").touch()
        found = await until(changes, {(Change.added, str(top / "two/inner/file"))})
        assert not any("one" in path for _, path in found)
        (top / "two").rename(tmp_path / "outside/two")
        await until(changes, {(Change.deleted, str(top / "two"))})
        (tmp_path / "outside/two/inner/unseen").touch()
        (tmp_path / "outside/two").rename(top / "three")
        found = await until(changes, {(Change.added, str(top / "three/inner/unseen"))})
        assert not any("two" in path for _, path in found)


async def test_below_folders_nothing_is_reported_if_not_recursive(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    async with files.watch(tmp_path, recursive=False, step=0) as changes:
        (tmp_path / "inner/unseen").touch()
        (tmp_path / "new").mkdir()
        (tmp_path / "new/unseen").touch()
        (tmp_path / "last").touch()
        found = await until(changes, {(Change.added, str(tmp_path / "last"))})
    assert {path for change, path in found if change is Change.added} == {
        str(tmp_path / "new"),
        str(tmp_path / "last"),
    }


async def test_a_file_is_followed_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_text("1")
    async with files.watch(path, step=0) as changes:
        await files.write_file(path, b"2", atomic=True)
        await until(changes, {(Change.added, str(path))})
        (tmp_path / "other").touch()
        path.unlink()
        found = await until(changes, {(Change.deleted, str(path))})
        assert {each for _, each in found} == {str(path)}
        path.touch()
        await until(changes, {(Change.added, str(path))})


async def test_changes_are_collected_until_it_is_quiet(tmp_path: Path) -> None:
    async with files.watch(tmp_path, step=200, debounce=60_000) as changes:
        found: list[Found] = []

        async def collect() -> None:
            found.append(await within(anext(changes)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect)
            for number in range(10):
                (tmp_path / f"{number}").touch()
                await anyio.lowlevel.checkpoint()
    assert found == [{(Change.added, str(tmp_path / f"{number}")) for number in range(10)}]


async def test_a_filter_leaves_changes_out(tmp_path: Path) -> None:
    def wanted(change: Change, path: str) -> bool:
        return change is Change.added and path.endswith(".csv")

    async with files.watch(tmp_path, watch_filter=wanted, step=0) as changes:
        (tmp_path / "a.txt").touch()
        (tmp_path / "a.csv").touch()
        assert await within(anext(changes)) == {(Change.added, str(tmp_path / "a.csv"))}


async def test_lost_changes_are_reported(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip(f"needs {limit} events to lose one")
    one, two = tmp_path / "one", tmp_path / "two"
    one.touch()
    two.touch()
    async with files.watch(tmp_path) as changes:
        for _ in range(limit // 2 + 10):  # equal events in a row are one
            os.utime(one)
            os.utime(two)
        (tmp_path / "new").mkdir()
        found = await within(anext(changes))
        assert (Change.overflow, str(tmp_path)) in found
        (tmp_path / "new/file").touch()
        await until(changes, {(Change.added, str(tmp_path / "new/file"))})


async def test_it_ends_when_all_that_it_watches_is_gone(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "inner").mkdir(parents=True)
    found: Found = set()
    async with files.watch(top, step=0) as changes:
        await files.rmtree(top)
        with anyio.fail_after(30):
            async for each in changes:
                found |= each
    assert {(Change.deleted, str(top)), (Change.deleted, str(top / "inner"))} <= found


async def test_a_cancelled_watch_is_closed(tmp_path: Path) -> None:
    changes = files.watch(tmp_path)

    async def iterate() -> None:
        async for _ in changes:
            pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(iterate)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    with pytest.raises(RuntimeError, match="begin a new one"):
        await anext(changes)


async def test_a_watch_can_be_closed_by_another_task(tmp_path: Path) -> None:
    ended = []
    changes = files.watch(tmp_path)

    async def iterate() -> None:
        async for _ in changes:
            pass
        ended.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(iterate)
        await anyio.wait_all_tasks_blocked()
        await changes.aclose()
    assert ended == [True]


async def test_a_loop_that_ends_early_closes_it(tmp_path: Path) -> None:
    changes = await files.watch(tmp_path).__aenter__()
    (tmp_path / "file").touch()
    with anyio.fail_after(30):
        async for _ in changes:
            break
    del changes  # no_descriptor_left looks for what is still open


async def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one path"):
        files.watch()
    with pytest.raises(ValueError, match="milliseconds"):
        files.watch(tmp_path, step=-1)
    with pytest.raises(FileNotFoundError) as missing:
        await anext(files.watch(tmp_path / "missing"))
    assert missing.value.filename == str(tmp_path / "missing")
    for missing_path in (tmp_path / "missing", ""):
        with pytest.raises(FileNotFoundError):
            async with files.watch(missing_path):
                pass


def test_a_limit_of_the_system_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def inotify_add_watch(self, *_: object) -> int:
            inotify.ctypes.set_errno(28)
            return -1

    folders = WatchedFolders(recursive=True)
    try:
        monkeypatch.setattr(inotify, "_libc", Full())
        with pytest.raises(OSError, match="max_user_watches") as full:
            folders.begin([str(tmp_path)])
        assert full.value.filename == str(tmp_path)
    finally:
        folders.close()


def test_what_is_new_is_not_modified_too() -> None:
    changes = Changes()
    changes.add(Change.added, "a")
    changes.add(Change.modified, "a")
    changes.add(Change.modified, "b")
    assert changes.take() == {(Change.added, "a"), (Change.modified, "b")}
    assert not changes
