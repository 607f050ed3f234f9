"""Walking a tree of folders: :class:`Walk`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from anyio.abc import AsyncResource

from penstock._core import ReadyValue, list_folder
from penstock.files._backend import FileBackend, current_backend
from penstock.files._path_objects.batches import Batches

if TYPE_CHECKING:
    from typing import Self

P = TypeVar("P")

OnError = Callable[[OSError], object]

_MOST_FOLDERS = 64
_MOST_ENTRIES = 2048
_LONGEST = 0.01  # seconds


class Listing(NamedTuple):
    """What a folder holds, or why it cannot be read."""

    path: str
    folders: list[str]
    others: list[str]
    error: OSError | None


def read_folder(path: str, follow_symlinks: bool) -> Listing:
    """List a folder; the kernel mostly tells what an entry is without a look at it."""
    try:
        folders, others = list_folder(path, follow_symlinks)
    except OSError as error:
        return Listing(path, [], [], error)
    return Listing(path, folders, others, None)


def _child(folder: str, name: str) -> str:
    if folder == ".":
        return name
    return folder + name if folder.endswith("/") else f"{folder}/{name}"


def _read_ahead(stack: list[str], follow_symlinks: bool, most: int) -> dict[str, Listing]:
    """List the top of ``stack``, and the folders that a walk visits next, on a worker."""
    found: dict[str, Listing] = {}
    entries = 0
    end = monotonic() + _LONGEST
    while stack:
        path = stack.pop()
        listing = read_folder(path, follow_symlinks)
        found[path] = listing
        entries += len(listing.folders) + len(listing.others)
        if len(found) >= most or entries >= _MOST_ENTRIES or monotonic() > end:
            break
        stack += [_child(path, name) for name in reversed(listing.folders)]
    return found


def _upwards(top: str, follow_symlinks: bool) -> Iterator[Listing]:
    """Walk from the leaves to ``top``; a folder is read before those below it."""
    stack: list[str | Listing] = [top]
    while stack:
        item = stack.pop()
        if isinstance(item, Listing):
            yield item
            continue
        listing = read_folder(item, follow_symlinks)
        stack.append(listing)
        if listing.error is None:
            stack += [_child(item, name) for name in reversed(listing.folders)]


class Walk(AsyncIterator[tuple[P, list[str], list[str]]], AsyncResource, Generic[P]):
    """The folders of a tree, each with the names of its folders and of its other entries.

    Folders are read on a worker thread, up to 64 of them or 2048 entries ahead of the program. So
    the memory is bounded by that, by the names of the folders that are still to be visited, and by
    the largest folder.

    Cancellation: a cancelled ``__anext__`` returns at once, and may be repeated, except from the
    leaves upwards, where it ends the walk.
    """

    def __init__(
        self,
        top: str,
        make: Callable[[str], P],
        *,
        top_down: bool,
        on_error: OnError | None,
        follow_symlinks: bool,
    ) -> None:
        """Walk the tree at ``top``; ``make`` makes of a folder's path what is yielded."""
        self._make = make
        self._on_error = on_error
        self._follow_symlinks = follow_symlinks
        self._backend: FileBackend | None = None
        self._stack = [top]
        self._ahead: dict[str, Listing] = {}
        self._most = _MOST_FOLDERS
        self._current: Listing | None = None
        self._upwards: Batches[Listing] | None = None
        if not top_down:
            self._stack = []
            self._upwards = Batches(
                lambda: _upwards(top, follow_symlinks),
                weight=lambda listing: 1 + len(listing.folders) + len(listing.others),
            )

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[tuple[P, list[str], list[str]]]:
        if self._upwards is not None:
            return self._next_upwards(self._upwards)
        # The program may have changed the list, to leave out folders or to add some.
        last, self._current = self._current, None
        if last is not None:
            folder = last.path
            self._stack += [_child(folder, name) for name in reversed(last.folders)]
        if self._stack:
            listing = self._ahead.pop(self._stack[-1], None)
            if listing is not None and listing.error is None:
                self._stack.pop()
                return ReadyValue(self._visit(listing))
            if listing is not None:
                self._ahead[listing.path] = listing
        return self._next()

    async def aclose(self) -> None:
        """End the walk."""
        self._stack.clear()
        self._ahead.clear()
        self._current = None
        if self._upwards is not None:
            await self._upwards.aclose()

    def _visit(self, listing: Listing) -> tuple[P, list[str], list[str]]:
        self._current = listing
        return self._make(listing.path), listing.folders, listing.others

    def _report(self, error: OSError) -> None:
        if self._on_error is not None:
            self._on_error(error)

    async def _next(self) -> tuple[P, list[str], list[str]]:
        while self._stack:
            path = self._stack[-1]
            listing = self._ahead.pop(path, None)
            if listing is None:
                await self._read(path)
                continue
            self._stack.pop()
            if listing.error is None:
                return self._visit(listing)
            self._report(listing.error)
        raise StopAsyncIteration

    async def _read(self, path: str) -> None:
        if self._ahead:  # the program leaves folders out, which were read in vain
            self._most = max(1, self._most // 2)
        else:
            self._most = min(_MOST_FOLDERS, 2 * self._most)
        self._ahead.clear()
        if self._backend is None:
            self._backend = current_backend()
        stack, follow, most = self._stack[-self._most :], self._follow_symlinks, self._most
        found = await self._backend.call(lambda: _read_ahead(stack, follow, most))
        self._ahead = found

    async def _next_upwards(self, source: Batches[Listing]) -> tuple[P, list[str], list[str]]:
        while True:
            listing = await anext(source)
            if listing.error is None:
                return self._make(listing.path), listing.folders, listing.others
            self._report(listing.error)
