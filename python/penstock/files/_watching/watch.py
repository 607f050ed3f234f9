"""Watching for changes: :func:`watch`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, NoReturn

import anyio
from anyio.abc import AsyncResource

from penstock.files._backend import current_backend
from penstock.files._not_copied import refuse_to_copy
from penstock.files._watching.changes import Change, Changes
from penstock.files._watching.folders import WatchedFolders

if TYPE_CHECKING:
    from typing import Self

Filter = Callable[[Change, str], bool]


def watch(
    *paths: str | os.PathLike[str],
    watch_filter: Filter | None = None,
    debounce: int = 1600,
    step: int = 50,
    recursive: bool = True,
) -> Watch:
    """Watch files and folders, and iterate over what changes.

    >>> async for changes in files.watch("settings"):
    ...     for change, path in changes:
    ...         print(change.name, path)

    The kernel reports the changes (inotify(7)); nothing is polled. It reports changes made on this
    machine only, not those that another machine makes on a file server. Symbolic links below a
    folder are not followed. If a folder is new or was moved here, all of its content is reported as
    added.

    The watch begins with the iteration, or earlier with ``async with``. Changes between two items
    are not missed. If the kernel's queue overflows because the program did not iterate for long, an
    item has ``(Change.overflow, path)`` for each watched path: scan all of it again.

    Args:
        paths: what to watch. A file may be replaced, removed and created again.
        watch_filter: called with each change and path; False leaves the change out.
        debounce: how long further changes are collected after the first one, at most, in
            milliseconds.
        step: an item is yielded when nothing has changed for this long, in milliseconds. 0 yields
            what has been reported at once.
        recursive: also watch the folders below, and those that are created later.

    Cancellation: ends the watch, and closes its descriptor. Iterating again raises RuntimeError.

    Raises:
        OSError: when the watch begins or a folder is added: with the path, FileNotFoundError if it
            is missing; with the limit of the system that is reached.
        ValueError: without a path, or for a time below 0.
    """
    if not paths:
        raise ValueError("watch() needs at least one path")
    if debounce < 0 or step < 0:
        raise ValueError(f"debounce {debounce} and step {step} are milliseconds, 0 or more")
    # With a closing slash, names would have two.
    names = [name.rstrip("/") or name[:1] for name in map(os.fsdecode, paths)]
    return Watch(names, watch_filter, debounce / 1000, step / 1000, recursive)


class Watch(AsyncIterator[set[tuple[Change, str]]], AsyncResource):
    """What :func:`watch` returns: an iterator over sets of (change, path).

    It ends when all watched paths are gone. One task at a time may iterate. Not thread-safe.
    """

    def __init__(
        self,
        paths: list[str],
        watch_filter: Filter | None,
        debounce: float,
        step: float,
        recursive: bool,
    ) -> None:
        """Call :func:`watch`, which checks the arguments."""
        self._paths = paths
        self._filter = watch_filter
        self._debounce = debounce
        self._step = step
        self._recursive = recursive
        self._folders: WatchedFolders | None = None
        self._ended = False
        self._cancelled = False
        self._waiting = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> set[tuple[Change, str]]:
        if self._cancelled:
            raise RuntimeError("this watch ended when it was cancelled or failed; begin a new one")
        if self._waiting:
            raise RuntimeError("another task is waiting for the next changes of this watch")
        self._waiting = True
        try:
            while not self._ended:
                found = await self._next(await self._begin())
                if self._filter is not None:
                    found = {each for each in found if self._filter(*each)}
                if found:
                    return found
        except BaseException:
            self._cancelled = True
            self._close()
            raise
        finally:
            self._waiting = False
        self._close()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the watch. The iteration of another task that waits ends too."""
        self._ended = True
        folders = self._folders
        if self._waiting and folders is not None and folders.fd >= 0:
            anyio.notify_closing(folders.fd)  # the waiting task closes it
        else:
            self._close()

    async def __aenter__(self) -> Self:
        try:
            await self._begin()
        except BaseException:
            self._close()
            raise
        return self

    def __reduce__(self) -> NoReturn:
        refuse_to_copy(self)

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        self._ended = True
        if self._folders is not None:
            self._folders.close()

    async def _begin(self) -> WatchedFolders:
        if self._folders is None:
            self._folders = folders = WatchedFolders(self._recursive)
            await self._on_worker(folders, lambda: folders.begin(self._paths))
        return self._folders

    async def _on_worker(self, folders: WatchedFolders, function: Callable[[], None]) -> None:
        """Call a function that uses the descriptor, which is not closed before it has returned."""
        work = current_backend().call(function)
        try:
            await work
        except BaseException:
            self._folders = None
            work.when_released(lambda _: folders.close())
            raise

    async def _next(self, folders: WatchedFolders) -> set[tuple[Change, str]]:
        changes = Changes()
        try:
            while not changes and not self._ended:
                await anyio.wait_readable(folders.fd)
                await self._read(folders, changes)
            end = anyio.current_time() + self._debounce
            while self._step and not self._ended:
                left = min(self._step, end - anyio.current_time())
                if left <= 0 or not await _is_readable(folders.fd, left):
                    break
                await self._read(folders, changes)
        except anyio.ClosedResourceError:
            if not self._ended:
                raise
        return changes.take()

    async def _read(self, folders: WatchedFolders, changes: Changes) -> None:
        events = folders.events()
        if folders.needs_lookups(events):
            await self._on_worker(folders, lambda: folders.take(events, changes))
        else:
            folders.take(events, changes)
        if not folders.watches_any:
            self._ended = True


async def _is_readable(fd: int, seconds: float) -> bool:
    with anyio.move_on_after(seconds):
        await anyio.wait_readable(fd)
        return True
    return False
