"""Paths with asynchronous methods: :class:`Path`."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock._core import exists_now, mode_now, stat_now
from penstock.files import _paths
from penstock.files._backend import current_backend
from penstock.files._file_objects.opening import open as open_file
from penstock.files._file_objects.text_file import check_newline
from penstock.files._path_objects import text as _text
from penstock.files._path_objects.batches import Batches
from penstock.files._path_objects.names import PYTHON, Names, StrPath, fold
from penstock.files._path_objects.removal import rmtree
from penstock.files._path_objects.trees import copy_tree, move_tree
from penstock.files._path_objects.walking import OnError, Walk
from penstock.files._whole_files.reading import read_file
from penstock.files._whole_files.writing import write_file

if TYPE_CHECKING:
    from typing import Self

    from _typeshed import OpenBinaryMode, OpenTextMode, ReadableBuffer

    from penstock.files._file_objects.binary_file import BinaryFile
    from penstock.files._file_objects.opening import Opening
    from penstock.files._file_objects.text_file import TextFile

T = TypeVar("T")

# What means that nothing is there, to pathlib. From Python 3.14 on, any error does.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP})
_ANY_ERROR = PYTHON >= (3, 14)


async def _on_worker(function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    return await current_backend().call(partial(function, *arguments, **keywords))


class Path(Names):
    """A path whose methods on the file system are awaited; those on its names are not.

    It has the methods, arguments and results of ``pathlib.Path``, those of Python 3.14 on every
    version, and is an ``os.PathLike``. It equals a ``pathlib.Path`` of the same names. It belongs
    to no event loop, does not change, and may be used by several threads and as a key.

    ``iterdir``, ``glob``, ``rglob`` and ``walk`` return asynchronous iterators, which hold a
    bounded number of entries. A loop that ends early needs no clean-up.

    Errors are those of pathlib: OSError with the path, ValueError for a path with a null character
    in it. Cancellation: a cancelled await of a single operation returns at once; the operation may
    or may not take effect. ``write_text`` and ``write_bytes``, ``copy``, ``copytree``, ``move`` and
    ``rmtree`` end between two steps, as the functions of ``penstock.files`` do.
    """

    __slots__ = ("__weakref__",)

    # ---- places ---------------------------------------------------------------------------------

    @classmethod
    async def cwd(cls) -> Self:
        """Return the current folder."""
        return cls(os.getcwd())

    @classmethod
    async def home(cls) -> Self:
        """Return the user's home folder; RuntimeError if it is not known."""
        return cls(await _on_worker(pathlib.Path.home))

    async def absolute(self) -> Self:
        """Return the path from the root; neither links nor ``..`` are resolved."""
        return self if self.is_absolute() else self._derived(self._path.absolute())

    async def resolve(self, strict: bool = False) -> Self:
        """Return the absolute path without links and ``..``.

        Args:
            strict: raise FileNotFoundError if the path does not exist.
        """
        return self._derived(await _on_worker(self._path.resolve, strict))

    async def expanduser(self) -> Self:
        """Return the path with ``~`` and ``~user`` replaced; RuntimeError if not known."""
        if not str(self._path).startswith("~"):
            return self
        return self._derived(await _on_worker(self._path.expanduser))

    async def readlink(self) -> Self:
        """Return what a symbolic link holds."""
        return self.with_segments(await _on_worker(os.readlink, str(self._path)))

    # ---- status ---------------------------------------------------------------------------------

    async def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status of the file, or of the link itself."""
        path = str(self._path)
        found = stat_now(path, follow_symlinks)
        return await current_backend().stat(path, follow_symlinks) if found is None else found

    async def lstat(self) -> os.stat_result:
        """Return the status; of a symbolic link, the link's own."""
        return await self.stat(follow_symlinks=False)

    async def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether the path exists."""
        try:
            found = exists_now(str(self._path), follow_symlinks)
        except ValueError:  # a name that no file can have
            return False
        if found is not None:
            return found
        return await self._mode(follow_symlinks) != 0

    async def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(await self._mode(follow_symlinks))

    async def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(await self._mode(follow_symlinks))

    async def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(await self._mode(False))

    async def is_socket(self) -> bool:
        """Whether it is a Unix socket."""
        return stat.S_ISSOCK(await self._mode())

    async def is_fifo(self) -> bool:
        """Whether it is a FIFO."""
        return stat.S_ISFIFO(await self._mode())

    async def is_block_device(self) -> bool:
        """Whether it is a block device."""
        return stat.S_ISBLK(await self._mode())

    async def is_char_device(self) -> bool:
        """Whether it is a character device."""
        return stat.S_ISCHR(await self._mode())

    async def is_junction(self) -> bool:
        """Return False: only Windows has junctions."""
        return False

    async def is_mount(self) -> bool:
        """Whether another file system begins here."""
        return await _on_worker(self._path.is_mount)

    async def samefile(self, other_path: StrPath) -> bool:
        """Whether both lead to the same file; OSError if one of them leads nowhere."""
        return os.path.samestat(await self.stat(), await _paths.stat(os.fspath(other_path)))

    async def owner(self, *, follow_symlinks: bool = True) -> str:
        """Return the name of the owner; KeyError if the number has none."""
        number = (await self.stat(follow_symlinks=follow_symlinks)).st_uid
        return await _on_worker(_user_name, number)

    async def group(self, *, follow_symlinks: bool = True) -> str:
        """Return the name of the group; KeyError if the number has none."""
        number = (await self.stat(follow_symlinks=follow_symlinks)).st_gid
        return await _on_worker(_group_name, number)

    async def _mode(self, follow_symlinks: bool = True) -> int:
        """Return the file's mode, or 0 if it does not exist."""
        try:
            path = str(self._path)
            mode = mode_now(path, follow_symlinks)
            if mode is not None:
                return mode
            return (await current_backend().stat(path, follow_symlinks)).st_mode
        except OSError as error:
            if _ANY_ERROR or error.errno in _ABSENT:
                return 0
            raise
        except ValueError:  # a name that no file can have
            return 0

    # ---- content --------------------------------------------------------------------------------

    @overload
    def open(
        self,
        mode: OpenTextMode = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Opening[TextFile]: ...

    @overload
    def open(
        self,
        mode: OpenBinaryMode,
        buffering: int = -1,
        encoding: None = None,
        errors: None = None,
        newline: None = None,
    ) -> Opening[BinaryFile]: ...

    def open(
        self,
        mode: Any = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Opening[Any]:
        """Open the file, as ``penstock.files.open`` does: await it, or ``async with`` it."""
        opened: Opening[Any] = open_file(
            str(self._path), mode, buffering, encoding, errors, newline
        )
        return opened

    async def read_bytes(self) -> bytes:
        """Return the content of the file."""
        return await read_file(str(self._path))

    async def read_text(
        self, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> str:
        """Return the text of the file; with ``newline`` None, each line end is a line feed.

        Raises:
            UnicodeDecodeError: for other bytes than the encoding's.
        """
        check_newline(newline)
        encoding = _text.resolve_encoding(encoding)
        data = await read_file(str(self._path))
        return await _text.decode(data, encoding, errors or "strict", newline)

    async def write_bytes(self, data: ReadableBuffer, *, atomic: bool = False) -> int:
        """Make ``data`` the content of the file; returns the number of bytes.

        With ``atomic`` the file is replaced in one step, durably, as by ``files.write_file``.
        """
        with memoryview(data) as view:
            await write_file(str(self._path), view, atomic=atomic)
            return view.nbytes

    async def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        atomic: bool = False,
    ) -> int:
        """Make ``data`` the content of the file; returns the number of characters.

        With ``atomic`` the file is replaced in one step, durably, as by ``files.write_file``.
        A text that cannot be encoded leaves the file as it was, in either case.

        Raises:
            UnicodeEncodeError: for characters that the encoding does not have.
        """
        if not isinstance(data, str):
            raise TypeError(f"data must be str, not {type(data).__name__}; see write_bytes()")
        check_newline(newline)
        encoding = _text.resolve_encoding(encoding)
        encoded = await _text.encode(data, encoding, errors or "strict", newline)
        await write_file(str(self._path), encoded, atomic=atomic)
        return len(data)

    # ---- folders --------------------------------------------------------------------------------

    def iterdir(self) -> Batches[Self]:
        """Iterate over what is in the folder, in no order, without ``.`` and ``..``.

        Raises:
            OSError: at the first item, if the folder cannot be read.
        """
        folder = self._path

        def entries() -> Iterator[Self]:
            with os.scandir(str(folder)) as found:
                for entry in found:
                    yield self._derived(folder / entry.name)

        return Batches(entries)

    def glob(
        self,
        pattern: StrPath,
        *,
        case_sensitive: bool | None = None,
        recurse_symlinks: bool = False,
    ) -> Batches[Self]:
        """Iterate over what is below this folder and matches the pattern.

        A pattern means what it means to the pathlib of this version of Python, which does the work,
        on a worker thread: before 3.13, a final ``**`` yields folders only. The search goes on for
        one item after the end of the iteration.

        Raises:
            NotImplementedError: for an argument that this version of Python does not have.
            ValueError: at the first item, for a pattern that is empty.
        """
        return self._search(self._path.glob, pattern, case_sensitive, recurse_symlinks)

    def rglob(
        self,
        pattern: StrPath,
        *,
        case_sensitive: bool | None = None,
        recurse_symlinks: bool = False,
    ) -> Batches[Self]:
        """Iterate over what is anywhere below this folder and matches the pattern, as ``glob``."""
        return self._search(self._path.rglob, pattern, case_sensitive, recurse_symlinks)

    def _search(
        self,
        search: Callable[..., Iterator[pathlib.Path]],
        pattern: StrPath,
        case_sensitive: bool | None,
        recurse_symlinks: bool,
    ) -> Batches[Self]:
        options = fold(case_sensitive)
        if recurse_symlinks:
            if PYTHON < (3, 13):
                raise NotImplementedError("recurse_symlinks needs Python 3.13; walk() has its own")
            options["recurse_symlinks"] = True
        # Before 3.13 pathlib takes strings only.
        return Batches(lambda: map(self._derived, search(os.fspath(pattern), **options)))

    def walk(
        self,
        top_down: bool = True,
        on_error: OnError | None = None,
        follow_symlinks: bool = False,
    ) -> Walk[Self]:
        """Iterate over the folders of the tree: (folder, names of folders, names of the others).

        As in ``pathlib.Path.walk``, a link to a folder is among the others unless links are
        followed. From the top down, names that the program removes from the list of folders are not
        visited, and those that it adds are.

        Folders are read up to 64 of them ahead. What a program makes in a folder that it has not
        visited yet may therefore be missing there.

        Args:
            top_down: a folder comes before those below it.
            on_error: called on the loop with the OSError of a folder that cannot be read. Without
                it such a folder is left out.
            follow_symlinks: visit folders that links lead to; a cycle then ends by itself only at
                40 links.
        """
        return Walk(
            str(self._path),
            lambda path: self._derived(pathlib.Path(path)),
            top_down=top_down,
            on_error=on_error,
            follow_symlinks=follow_symlinks,
        )

    async def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Make the folder; with ``parents``, those above it too."""
        if parents:
            await _on_worker(self._path.mkdir, mode, parents, exist_ok)
        else:
            await _paths.mkdir(str(self._path), mode, exist_ok=exist_ok)

    async def rmdir(self) -> None:
        """Remove the empty folder."""
        await _paths.rmdir(str(self._path))

    async def rmtree(self, *, ignore_errors: bool = False, on_error: OnError | None = None) -> None:
        """Remove the folder with all that is in it, see ``penstock.files.rmtree``."""
        await rmtree(str(self._path), ignore_errors=ignore_errors, on_error=on_error)

    # ---- names ----------------------------------------------------------------------------------

    async def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Make the file if it does not exist; set its times to now if it does.

        Raises:
            FileExistsError: if it exists, without ``exist_ok``.
        """
        await _on_worker(self._path.touch, mode, exist_ok)

    async def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        """Set the permissions; NotImplementedError for those of a link, where Linux has none."""
        await _on_worker(os.chmod, str(self._path), mode, follow_symlinks=follow_symlinks)

    async def lchmod(self, mode: int) -> None:
        """Set the permissions of a link itself, see ``chmod``."""
        await self.chmod(mode, follow_symlinks=False)

    async def symlink_to(self, target: StrPath, target_is_directory: bool = False) -> None:
        """Make this a symbolic link that leads to ``target``, which need not exist."""
        await _on_worker(os.symlink, os.fspath(target), str(self._path))

    async def hardlink_to(self, target: StrPath) -> None:
        """Make this another name of the file ``target``.

        If that is a symbolic link: a name of what it leads to, from Python 3.14 on, as in pathlib;
        before, another name of the link.
        """
        if PYTHON >= (3, 14):
            await _on_worker(os.link, os.fspath(target), str(self._path))
            return
        await _paths.link(os.fspath(target), str(self._path))

    async def rename(self, target: StrPath) -> Self:
        """Rename the file or folder, and return the new path; a file of that name is replaced."""
        await _paths.rename(str(self._path), os.fspath(target))
        return self.with_segments(target)

    async def replace(self, target: StrPath) -> Self:
        """The same as ``rename``, under the name that says so."""
        await _paths.replace(str(self._path), os.fspath(target))
        return self.with_segments(target)

    async def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file or link."""
        await _paths.unlink(str(self._path), missing_ok=missing_ok)

    # ---- copies ---------------------------------------------------------------------------------

    async def copy(
        self,
        target: StrPath,
        *,
        follow_symlinks: bool = True,
        preserve_metadata: bool = False,
    ) -> Self:
        """Copy this file, or this folder with all that is in it, and return the new path.

        Each file is copied by ``penstock.files.copy``, without sync: it appears when it is
        complete, and gets the permissions of its source. A FIFO, a socket or a device is an error.

        Args:
            target: the name of the copy. A file of that name is replaced; a folder is an error.
            follow_symlinks: copy what links lead to, not the links.
            preserve_metadata: copy times, permissions of folders and extended attributes too, but
                neither set-user-ID bits nor the kernel's own attributes (``security.*``).

        Cancellation: what is copied so far stays.
        """
        await copy_tree(
            str(self._path),
            os.fspath(target),
            follow_symlinks=follow_symlinks,
            preserve_metadata=preserve_metadata,
        )
        return self.with_segments(target)

    async def copy_into(
        self,
        target_dir: StrPath,
        *,
        follow_symlinks: bool = True,
        preserve_metadata: bool = False,
    ) -> Self:
        """Copy into a folder that exists, under the same name; see ``copy``."""
        return await self.copy(
            self._name_in(target_dir),
            follow_symlinks=follow_symlinks,
            preserve_metadata=preserve_metadata,
        )

    async def copytree(
        self,
        target: StrPath,
        *,
        follow_symlinks: bool = False,
        preserve_metadata: bool = True,
        dirs_exist_ok: bool = False,
    ) -> Self:
        """Copy this folder with all that is in it, and return the new path; see ``copy``.

        Args:
            target: the name of the copy.
            follow_symlinks: copy what links lead to, not the links.
            preserve_metadata: copy times and extended attributes too.
            dirs_exist_ok: copy into folders that exist, and replace files.

        Raises:
            NotADirectoryError: if this is a file.
        """
        await copy_tree(
            str(self._path),
            os.fspath(target),
            follow_symlinks=follow_symlinks,
            preserve_metadata=preserve_metadata,
            exist_ok=dirs_exist_ok,
            what="folder",
        )
        return self.with_segments(target)

    async def move(self, target: StrPath) -> Self:
        """Rename; between file systems, copy with all metadata and remove. Returns the new path.

        A file of that name is replaced. Cancellation: the source remains complete until the copy is
        complete.
        """
        await move_tree(str(self._path), os.fspath(target))
        return self.with_segments(target)

    async def move_into(self, target_dir: StrPath) -> Self:
        """Move into a folder that exists, under the same name; see ``move``."""
        return await self.move(self._name_in(target_dir))

    def _name_in(self, folder: StrPath) -> Self:
        if not self.name:
            raise ValueError(
                f"{str(self)!r} has no name that it could have in {os.fspath(folder)!r}"
            )
        return self.with_segments(folder, self.name)


def _user_name(number: int) -> str:
    import pwd

    return pwd.getpwuid(number).pw_name


def _group_name(number: int) -> str:
    import grp

    return grp.getgrgid(number).gr_name
