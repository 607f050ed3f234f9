"""Files of a folder below a prefix of the path: `penstock serve --static PREFIX=DIR`."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import mimetypes
import os
import re
import stat
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from urllib.parse import quote

from penstock.asgi._codings import accepted_codings, gains_by_coding
from penstock.asgi._types import Application, Receive, Scope, Send

_INDEX = "index.html"
_SIBLINGS = {"br": ".br", "zstd": ".zst", "gzip": ".gz"}
_COPIED = 65536
"""A file of at most this size is read and leaves with its head; a longer one is sent by the kernel.
"""
_PART = 1 << 17
_RANGE = re.compile(r"bytes=\s*(\d*)-(\d*)\s*", re.ASCII | re.IGNORECASE)
_DIGITS = 18
"""The digits of the largest position: no file has more bytes."""
_TEXTS = {
    404: b"Not Found",
    405: b"Method Not Allowed",
    412: b"Precondition Failed",
    416: b"Range Not Satisfiable",
}
_PACKED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
_NOT_THERE = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM),
        *(errno.ENXIO, errno.ENODEV, errno.EISDIR),
    }
)

Headers = list[tuple[bytes, bytes]]


@dataclass
class _File:
    descriptor: int
    size: int
    mtime_ns: int
    coding: str | None = None

    def fileno(self) -> int:
        return self.descriptor

    @property
    def etag(self) -> str:
        coding = f"-{self.coding}" if self.coding else ""
        return f'"{self.mtime_ns:x}-{self.size:x}{coding}"'


class StaticFiles:
    """An application that answers with files, and passes other requests to another application.

    A name that leads out of the folder, even by a symbolic link, is not found; neither is one with
    a component that begins with a dot, except ".well-known". A folder is answered with its file
    index.html, at its name with a slash; folders are not listed. If the folder also has the file's
    name with the suffix .br, .zst or .gz, at least as new, a client that accepts this coding gets
    that file instead.

    Below the prefix, a path that names no file is answered with 404; with the prefix "/", the
    request is passed to the application.

    Args:
        app: The other application.
        prefix: The beginning of the paths, with a slash.
        folder: The folder.

    Raises:
        ValueError: If the prefix does not begin with a slash.
        OSError: If there is no such folder.
    """

    def __init__(self, app: Application, prefix: str, folder: str) -> None:
        if not prefix.startswith("/"):
            raise ValueError(f"a prefix of a path must begin with '/', not {prefix!r}")
        self._app = app
        self._prefix = prefix.rstrip("/")
        mimetypes.init()  # reads files of the system, now and not at the first request
        self._folder = os.path.realpath(folder)
        self._inside = os.path.join(self._folder, "")
        if not stat.S_ISDIR(os.stat(self._folder).st_mode):
            raise NotADirectoryError(20, "is not a folder", folder)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = self._name(scope) if scope["type"] == "http" else None
        if name is None:
            await self._app(scope, receive, send)
            return
        if scope["method"] not in ("GET", "HEAD"):
            if not self._prefix:
                await self._app(scope, receive, send)
                return
            await _answer(send, 405, [(b"allow", b"GET, HEAD")])
            return
        with contextlib.ExitStack() as opened:
            found = self._open(name, opened)
            if found is None:
                if self._prefix:
                    await _answer(send, 404)
                else:
                    await self._app(scope, receive, send)
            elif isinstance(found, str):
                query = scope["query_string"]
                target = quote(scope["path"]).encode() + b"/" + (query and b"?" + query)
                # Two slashes at its front would name a host.
                await _answer(send, 308, [(b"location", b"/" + target.lstrip(b"/"))])
            else:
                await self._send(name, found, scope, send, opened)

    def _name(self, scope: Scope) -> str | None:
        """Return the part behind the prefix; None if the path does not begin with that."""
        path: str = scope["path"]
        root = scope.get("root_path", "").rstrip("/")
        if root and path.startswith(root + "/"):
            path = path[len(root) :]
        if not path.startswith(self._prefix + "/"):
            return None
        return path[len(self._prefix) + 1 :]

    def _open(self, name: str, opened: contextlib.ExitStack) -> _File | str | None:
        """Return the file, a text if the folder has an index but lacks its slash, or None."""
        parts = name.split("/")
        if not parts[-1]:
            parts[-1] = _INDEX
        for part in parts:
            if not part or "\0" in part or (part.startswith(".") and part != ".well-known"):
                return None
        path = os.path.join(self._folder, *parts)
        found = self._open_path(path, opened)
        if found is not None:
            return found
        if not name or name.endswith("/"):
            return None
        return "slash" if self._open_path(os.path.join(path, _INDEX), opened) else None

    def _open_path(self, path: str, opened: contextlib.ExitStack) -> _File | None:
        try:
            # A FIFO would wait for its other end.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except UnicodeEncodeError:
            return None
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise  # such as too many open files: a client or a cache must not take it for 404
        opened.callback(os.close, descriptor)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        # The name of what was opened, so that no link can change in between.
        if not os.readlink(f"/proc/self/fd/{descriptor}").startswith(self._inside):
            return None
        return _File(descriptor, found.st_size, found.st_mtime_ns)

    def _best(
        self, name: str, found: _File, headers: Headers, opened: contextlib.ExitStack
    ) -> _File:
        """Return the file, or one beside it with the same content compressed."""
        path = os.path.join(self._folder, name + _INDEX if name[-1:] in ("", "/") else name)
        for coding in accepted_codings(headers, tuple(_SIBLINGS)):
            sibling = self._open_path(path + _SIBLINGS[coding], opened)
            if sibling is not None and sibling.mtime_ns >= found.mtime_ns:
                sibling.coding = coding
                return sibling
        return found

    async def _send(
        self, name: str, found: _File, scope: Scope, send: Send, opened: contextlib.ExitStack
    ) -> None:
        fields = scope["headers"]
        content_type = _content_type(name)
        # RFC 9110, section 14.2: a range is one of GET alone.
        asked = _value(fields, b"range") if scope["method"] == "GET" else None
        varies = gains_by_coding(content_type)
        if varies and not asked:
            found = self._best(name, found, scope["headers"], opened)
        if content_type.startswith("text/"):
            content_type += "; charset=utf-8"
        modified = formatdate(found.mtime_ns // 1_000_000_000, usegmt=True)
        headers = [
            (b"etag", found.etag.encode()),
            (b"last-modified", modified.encode()),
            (b"accept-ranges", b"bytes"),
        ]
        if varies:
            headers.append((b"vary", b"accept-encoding"))
        if _is_refused(fields, found):
            await _answer(send, 412, headers)
            return
        if _is_unchanged(fields, found, modified):
            await _answer(send, 304, headers)
            return
        start, size, status = 0, found.size, 200
        if asked and _range_applies(fields, found, modified):
            extent = _extent(asked, found.size)
            if extent is not None:
                start, size = extent
                status = 206
                if size == 0:
                    text = f"bytes */{found.size}"
                    await _answer(send, 416, [*headers, (b"content-range", text.encode())])
                    return
                text = f"bytes {start}-{start + size - 1}/{found.size}"
                headers.append((b"content-range", text.encode()))
        headers.append((b"content-type", content_type.encode()))
        headers.append((b"content-length", b"%d" % size))
        headers.append((b"x-content-type-options", b"nosniff"))
        if found.coding is not None:
            headers.append((b"content-encoding", found.coding.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if size > _COPIED and "http.response.zerocopysend" in (scope.get("extensions") or ()):
            # For HEAD too: nothing is sent, but what is around the application sees it like GET.
            message = {"type": "http.response.zerocopysend", "file": found}
            await send({**message, "offset": start, "count": size})
        elif scope["method"] == "HEAD" or size == 0:
            await send({"type": "http.response.body", "body": b""})
        elif size <= _COPIED:
            body = os.pread(found.descriptor, size, start)
            await send({"type": "http.response.body", "body": body})
        else:
            await _send_by_parts(send, found.descriptor, start, size)


async def _send_by_parts(send: Send, descriptor: int, start: int, size: int) -> None:
    loop = asyncio.get_running_loop()
    end = start + size
    while start < end:
        part = await loop.run_in_executor(
            None, os.pread, descriptor, min(_PART, end - start), start
        )
        if not part:
            raise RuntimeError("a file became shorter while it was sent")
        start += len(part)
        await send({"type": "http.response.body", "body": part, "more_body": start < end})


async def _answer(send: Send, status: int, headers: Headers | None = None) -> None:
    body = _TEXTS.get(status, b"")
    given = [*(headers or ())]
    if body:
        given.append((b"content-type", b"text/plain; charset=utf-8"))
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body})


def _content_type(name: str) -> str:
    if not name or name.endswith("/"):
        return "text/html"
    kind, packed = mimetypes.guess_type(name)
    if packed is not None:  # a .tar.gz is not sent as a tar
        kind = _PACKED.get(packed)
    return kind or "application/octet-stream"


def _value(fields: Headers, name: bytes) -> str | None:
    """Return a field's value, several lines as one list; None if it is not there."""
    lines = [value.decode("latin-1") for key, value in fields if key == name]
    return ", ".join(lines) if lines else None


def _is_refused(fields: Headers, found: _File) -> bool:
    """Return whether the client wants another version of the file (RFC 9110, section 13.2.2)."""
    tags = _value(fields, b"if-match")
    if tags is not None:
        return tags.strip() != "*" and found.etag not in _tags(tags)
    moment = _moment(_value(fields, b"if-unmodified-since"))
    return moment is not None and moment < found.mtime_ns // 1_000_000_000


def _is_unchanged(fields: Headers, found: _File, modified: str) -> bool:
    """Return whether the client has the file (RFC 9110, section 13.2.2)."""
    tags = _value(fields, b"if-none-match")
    if tags is not None:
        weak = {tag.removeprefix("W/") for tag in _tags(tags)}
        return tags.strip() == "*" or found.etag in weak
    since = _value(fields, b"if-modified-since")
    moment = None if since == modified else _moment(since)
    return since == modified or (moment is not None and moment >= found.mtime_ns // 1_000_000_000)


def _moment(text: str | None) -> float | None:
    """Return the seconds of a date; None if there is none or it cannot be read."""
    if text is None:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _tags(text: str) -> set[str]:
    return {entry.strip() for entry in text.split(",")}


def _range_applies(fields: Headers, found: _File, modified: str) -> bool:
    condition = _value(fields, b"if-range")
    return condition is None or condition.strip() in (found.etag, modified)


def _extent(asked: str, size: int) -> tuple[int, int] | None:
    """Return the start and the length of a range; length 0 if the file does not have it.

    None for what is not a single range, which is answered with the whole file.
    """
    match = _RANGE.fullmatch(asked)
    if match is None or match[1] == match[2] == "":
        return None
    first, last = (
        10**_DIGITS if len(digits) > _DIGITS else int(digits or 0)
        for digits in (group.lstrip("0") for group in match.groups())
    )
    if not match[1]:
        length = min(size, last)
        return size - length, length
    if not match[2]:
        last = size - 1
    elif last < first:
        return None
    return first, max(0, min(last + 1, size) - first)
