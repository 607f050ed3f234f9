"""Trees of folders with ``files.Path``: walked, removed, copied, moved."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock import files
from tests.python.files.path_judge import make_tree, outcome_of, outcome_of_pathlib, snapshot

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    top.mkdir()
    make_tree(top)
    (top / "fifo").unlink()
    return top


@pytest.mark.parametrize("follow_symlinks", [False, True])
@pytest.mark.parametrize("top_down", [False, True])
async def test_a_walk_is_that_of_os_walk(tree: Path, top_down: bool, follow_symlinks: bool) -> None:
    (tree / "other/up").unlink()  # an endless tree for who follows links
    found = {}
    order = []
    async for folder, folders, others in files.Path(tree).walk(top_down, None, follow_symlinks):
        found[str(folder)] = sorted(folders + others)
        order.append(str(folder))
        assert isinstance(folder, files.Path)
    expected = {
        folder: sorted(folders + others)
        for folder, folders, others in os.walk(tree, top_down, None, follow_symlinks)
    }
    assert found == expected
    assert order == list(expected)
    assert order.index(str(tree)) == (0 if top_down else len(order) - 1)


async def test_names_removed_from_a_walk_are_left_out_and_new_ones_visited(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number:03}/below").mkdir(parents=True)
    visited = []
    async for folder, folders, _ in files.Path(tmp_path).walk():
        visited.append(str(folder.relative_to(tmp_path)))
        if folder == tmp_path:
            folders.sort()
            del folders[1::2]
            await (folder / "new").mkdir()
            folders.insert(1, "new")
        elif folder.name == "010":
            folders.clear()
    expected = ["."]
    for number in range(0, 200, 2):
        expected += [f"{number:03}"] + ([f"{number:03}/below"] if number != 10 else [])
        expected += ["new"] if number == 0 else []
    assert visited == expected


async def test_a_walk_reports_what_it_cannot_read(tmp_path: Path) -> None:
    errors: list[OSError] = []
    assert [
        each async for each in files.Path(tmp_path, "missing").walk(on_error=errors.append)
    ] == []
    assert [type(error) for error in errors] == [FileNotFoundError]
    assert errors[0].filename == str(tmp_path / "missing")
    assert [each async for each in files.Path(tmp_path, "missing").walk(top_down=False)] == []

    def refuse(error: OSError) -> None:
        raise error

    with pytest.raises(FileNotFoundError):
        await anext(files.Path(tmp_path, "missing").walk(on_error=refuse))


async def test_a_folder_of_many_entries_is_read_in_batches(tmp_path: Path) -> None:
    for number in range(5000):
        (tmp_path / f"{number}").touch()
    found = files.Path(tmp_path).iterdir()
    first = await anext(found)
    assert isinstance(first, files.Path)
    assert len(found._ready) < 1000
    names = {path.name async for path in found} | {first.name}
    assert names == {str(number) for number in range(5000)}


async def test_an_iteration_that_ends_early_closes_its_folder(tmp_path: Path) -> None:
    for number in range(5000):
        (tmp_path / f"{number}").touch()
    async for _ in files.Path(tmp_path).iterdir():
        break
    async with files.Path(tmp_path).iterdir() as entries:
        await anext(entries)
    with pytest.raises(StopAsyncIteration):
        await anext(entries)


async def test_a_cancelled_iteration_says_so_afterwards(tmp_path: Path) -> None:
    found = files.Path(tmp_path).iterdir()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anext(found)
    assert scope.cancelled_caught
    with pytest.raises(RuntimeError, match="begin a new one"):
        await anext(found)


async def test_a_tree_is_removed_and_what_links_lead_to_is_kept(tree: Path) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (tree / "out").symlink_to(outside)
    await files.rmtree(tree)
    assert not tree.exists()
    assert (outside / "kept").exists()


@pytest.mark.parametrize("end", ["", "/", "//"])
async def test_what_a_link_leads_to_is_kept_whatever_the_path_ends_with(
    tree: Path, end: str
) -> None:
    link = tree.parent / "link"
    link.symlink_to(tree)
    before = sorted(tree.rglob("*"))
    with pytest.raises(NotADirectoryError, match="symbolic link"):
        await files.rmtree(f"{link}{end}")
    assert sorted(tree.rglob("*")) == before
    await files.rmtree(os.fsencode(f"{tree}{end}"))
    assert not tree.exists()
    with pytest.raises(FileNotFoundError):
        await files.rmtree("")


async def test_a_deep_tree_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "top"
    folder.mkdir()
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(150):
        os.mkdir("d" * 40, dir_fd=fd)  # together longer than a path may be
        inner = os.open("d" * 40, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    await files.Path(folder).rmtree()
    assert not folder.exists()


async def test_a_folder_of_many_files_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number}").touch()
    await files.rmtree(folder)
    assert not folder.exists()


async def test_no_tree_is_removed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with pytest.raises(NotADirectoryError, match="symbolic link"):
        await files.rmtree(tmp_path / "link")
    with pytest.raises(NotADirectoryError):
        (tmp_path / "file").touch()
        await files.rmtree(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        await files.rmtree(tmp_path / "missing")
    await files.rmtree(tmp_path / "missing", ignore_errors=True)
    assert (tmp_path / "folder").exists()


async def test_what_cannot_be_removed_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "top/one").mkdir(parents=True)
    for name in ("kept", "one/kept", "gone", "one/gone"):
        (tmp_path / "top" / name).touch()
    unlink = os.unlink

    def refuse(path: Any, **keywords: Any) -> None:
        if path == "kept":
            raise PermissionError(1, "Operation not permitted", path)
        unlink(path, **keywords)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError):
        await files.rmtree(tmp_path / "top")
    errors: list[OSError] = []
    await files.rmtree(tmp_path / "top", on_error=errors.append)
    kept = {str(tmp_path / "top/kept"), str(tmp_path / "top/one/kept")}
    assert {error.filename for error in errors} == kept
    assert len(errors) == 2
    await files.rmtree(tmp_path / "top", ignore_errors=True)
    assert {path.name for path in (tmp_path / "top").rglob("*")} == {"kept", "one"}


async def test_a_cancelled_removal_ends(tree: Path) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await files.rmtree(tree)
    assert scope.cancelled_caught


@pytest.mark.parametrize("follow_symlinks", [False, True])
async def test_a_tree_is_copied(tree: Path, follow_symlinks: bool) -> None:
    if follow_symlinks:
        for name in ("broken", "loop", "other/up"):
            (tree / name).unlink()
    os.utime(tree / "one", ns=(10**18, 10**18))
    os.utime(tree / "a.txt", ns=(10**18, 10**18))
    copied = await files.Path(tree).copy(
        tree.parent / "copy", follow_symlinks=follow_symlinks, preserve_metadata=True
    )
    assert isinstance(copied, files.Path)
    expected = snapshot(tree)
    if follow_symlinks:
        assert (copied._path / "to_folder/c.txt").read_bytes() == (tree / "one/c.txt").read_bytes()
        assert not (copied._path / "to_file").is_symlink()
    else:
        for made in (snapshot(copied._path), expected):
            for name in ("a.txt", "hard"):  # two names of one file become two files
                made[name] = made[name][:2], made[name][2][0]
        assert snapshot(copied._path).keys() == expected.keys()
    for name in ("one", "a.txt"):
        assert (copied._path / name).stat().st_mtime_ns == 10**18
    with pytest.raises(FileExistsError):
        await files.Path(tree).copy(copied)
    with pytest.raises(OSError, match="parent"):
        await files.Path(tree).copy(tree / "one/within")
    await files.Path(tree).copytree(copied, dirs_exist_ok=True, follow_symlinks=True) if (
        follow_symlinks
    ) else None
    with pytest.raises(NotADirectoryError):
        await files.Path(tree, "a.txt").copytree(tree.parent / "c")


async def test_copies_and_moves_are_those_of_the_newest_pathlib(tmp_path: Path) -> None:
    calls = {
        "copy a file": lambda top: (top / "a.txt").copy(top / "new"),
        "copy over a file": lambda top: (top / "a.txt").copy(top / "b.tar.gz"),
        "copy to a folder's name": lambda top: (top / "a.txt").copy(top / "one"),
        "copy into": lambda top: (top / "one").copy_into(top / "empty"),
        "copy a link": lambda top: (top / "to_file").copy(top / "n", follow_symlinks=False),
        "copy through a link": lambda top: (top / "to_folder").copy(top / "n"),
        "copy onto itself": lambda top: (top / "one").copy(top / "one"),
        "copy what is missing": lambda top: (top / "missing").copy(top / "n"),
        "copy to nowhere": lambda top: (top / "a.txt").copy(top / "missing/n"),
        "move a file": lambda top: (top / "a.txt").move(top / "new"),
        "move a folder": lambda top: (top / "one").move(top / "new"),
        "move into": lambda top: (top / "one").move_into(top / "other"),
        "move over a folder": lambda top: (top / "one").move(top / "other"),
        "move onto its link": lambda top: (top / "to_file").move(top / "a.txt"),
        "move the root": lambda top: type(top)("/").move_into(top),
    }
    for number, (name, call) in enumerate(calls.items()):
        ours, theirs = tmp_path / f"{number}p", tmp_path / f"{number}q"
        for top in (ours, theirs):
            top.mkdir()
            make_tree(top)
        actual = await outcome_of(call, ours)
        if sys.version_info < (3, 14):
            assert actual[0] in ("path", "raises"), name
            continue
        assert actual == outcome_of_pathlib(call, theirs), name
        assert snapshot(ours) == snapshot(theirs), name


async def test_a_copy_has_no_rights_of_another_owner(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"#!")
    (tmp_path / "a").chmod(0o6755)
    await files.Path(tmp_path, "a").copy(tmp_path / "b", preserve_metadata=True)
    assert (tmp_path / "b").stat().st_mode & 0o7777 == 0o755


async def test_a_move_to_another_file_system_copies_and_removes(tree: Path) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tree.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    target = shared / f"penstock-move-{os.getpid()}"
    expected = set(snapshot(tree))
    try:
        assert await files.Path(tree).move(target) == target
        assert not tree.exists()
        assert set(snapshot(target)) == expected
        assert await files.Path(target, "a.txt").move(tree.parent / "a") == tree.parent / "a"
        assert not (target / "a.txt").exists()
    finally:
        await files.rmtree(target, ignore_errors=True)


async def test_text_is_written_in_one_step_if_asked(tmp_path: Path) -> None:
    path = files.Path(tmp_path, "text")
    assert await path.write_text("first\n", encoding="utf-8") == 6
    inode = (await path.stat()).st_ino
    assert await path.write_text("second\n", encoding="utf-8", atomic=True) == 7
    assert (await path.stat()).st_ino != inode
    with pytest.raises(UnicodeEncodeError):
        await path.write_text("é", encoding="ascii")
    assert await path.read_text(encoding="utf-8") == "second\n"
    assert await path.write_bytes(memoryview(b"abcd")[::2], atomic=True) == 2
    assert await path.read_bytes() == b"ac"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig", "utf-32-le"])
async def test_a_long_text_is_that_of_the_builtin(tmp_path: Path, encoding: str) -> None:
    text = "é\r\nline\rlast\n𝄞" * 60_000
    path = files.Path(tmp_path, "text")
    await path.write_text(text, encoding=encoding, newline="")
    assert (tmp_path / "text").read_bytes() == text.encode(encoding)
    assert await path.read_text(encoding=encoding) == (tmp_path / "text").read_text(encoding)
    assert await path.read_text(encoding=encoding, newline="") == text


async def test_a_file_is_opened(tmp_path: Path) -> None:
    path = files.Path(tmp_path, "file")
    async with path.open("w", encoding="utf-8") as file:
        await file.write("text")
    async with path.open("rb") as binary:
        assert await binary.read() == b"text"
    file = await path.open(encoding="utf-8")
    assert [line async for line in file] == ["text"]
    await file.close()
    assert await files.Path.cwd() == Path.cwd()
    assert await files.Path.home() == Path.home()
