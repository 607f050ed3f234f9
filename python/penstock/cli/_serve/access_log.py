"""The access log of ``penstock serve``, written in blocks by a thread."""

from __future__ import annotations

import asyncio
import http
import json
import os
import select
import stat
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from queue import SimpleQueue

from penstock.asgi import Scope, client_text, quoted_path

__all__ = ["AccessBlocks", "access_text", "json_line"]

_DELAY = 0.1
_MOST = 512
_MOST_BYTES = 1 << 24
"""Bytes that wait for a slow reader of the log."""
_NEWLINE = ord("\n")
_END_SECONDS = 5.0
_STATUS_COLOURS = {1: 97, 2: 32, 3: 33, 4: 31, 5: 91}
_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}


def painted(text: str, colour: int) -> str:
    """Return a text in a colour of a terminal."""
    return f"\x1b[{colour}m{text}\x1b[0m"


def access_text(
    client: str, method: str, path: str, version: str, status: int, colours: bool
) -> str:
    """Return the line of a response, in uvicorn's format."""
    line = f"{method} {path} HTTP/{version}"
    answer = f"{status} {_PHRASES.get(status, '')}".rstrip()
    if colours:
        line = f"\x1b[1m{line}\x1b[0m"
        answer = painted(answer, _STATUS_COLOURS.get(status // 100, 0))
    return f'{client} - "{line}" {answer}'


def json_line(scope: Scope, status: int, seconds: float) -> str:
    """Return the line of a response as an object of JSON."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps(
        {
            "time": moment.replace("+00:00", "Z"),
            "client": client_text(scope),
            "method": scope["method"],
            "path": quoted_path(scope),
            "http_version": scope["http_version"],
            "status": status,
            "seconds": round(seconds, 6),
        }
    )


class AccessBlocks:
    """Takes a line for each response, and writes many at once.

    Lines are put together on the loop a tenth of a second later, or when there are many, and a
    thread writes them, so neither a request nor the loop waits for the reader of the log. While it
    takes nothing, 16 MiB of lines wait. More are lost, and a line in their place tells how many.
    A process that is killed loses the lines of its last tenth of a second.

    Several processes may write into one pipe: no line is in the middle of another one, unless it is
    longer than 4 KiB.

    Args:
        descriptor: Where the lines go.
        prefix: What each line begins with.
        colours: Whether they are painted.
        as_json: Whether each line is an object of JSON.
    """

    def __init__(
        self, descriptor: int, prefix: str, colours: bool, *, as_json: bool = False
    ) -> None:
        self._descriptor = descriptor
        # A pipe keeps the bytes of one write together up to this number (pipe(7)).
        self._most = select.PIPE_BUF if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else _MOST_BYTES
        self._prefix = prefix
        self._colours = colours
        self._as_json = as_json
        self._lines: list[Callable[[], str] | str] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._blocks: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # bytes of the blocks
        self._lost = 0  # lines, of which no line tells yet
        self._torn = False  # the last line was written in part
        self._thread = threading.Thread(target=self._write, name="penstock-access", daemon=True)
        self._thread.start()

    def log_start(self, scope: Scope, status: int) -> None:
        """Log a response in uvicorn's format."""
        client, method, version = client_text(scope), scope["method"], scope["http_version"]
        path, query = scope["path"], scope["query_string"]
        self._add(
            lambda: (
                self._prefix
                + access_text(
                    client,
                    method,
                    quoted_path({"path": path, "query_string": query}),
                    version,
                    status,
                    self._colours,
                )
            )
        )

    def log_json(self, scope: Scope, status: int, seconds: float) -> None:
        """Log a response as JSON."""
        self._add(json_line(scope, status, seconds))

    def _add(self, line: Callable[[], str] | str) -> None:
        self._lines.append(line)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(_DELAY, self.flush)
        elif len(self._lines) >= _MOST:
            self.flush()

    def flush(self) -> None:
        """Hand what there is to the thread."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if not self._lines and not self._lost:
            return
        lines, self._lines = self._lines, []
        with self._lock:
            if self._waiting > _MOST_BYTES:
                self._lost += len(lines)
                return
            lost, self._lost = self._lost, 0
        told = [self._tell(lost)] if lost else []
        texts = (line if isinstance(line, str) else line() for line in lines)
        block = "".join(f"{text}\n" for text in (*told, *texts)).encode("utf-8", "backslashreplace")
        with self._lock:
            self._waiting += len(block)
        self._blocks.put(block)

    def _tell(self, lost: int) -> str:
        text = f"{lost} lines are missing here: this log could not be written as fast as it grew"
        return json.dumps({"message": text}) if self._as_json else self._prefix + text

    def close(self) -> None:
        """Write what there is. A reader that takes nothing is not waited for for long."""
        self.flush()
        self._blocks.put(None)
        self._thread.join(_END_SECONDS)

    def _write(self) -> None:
        # Not into sys.stdout: it would be locked meanwhile, for the application's prints and for
        # the end of the interpreter.
        while (block := self._blocks.get()) is not None:
            self._write_block(block)
            with self._lock:
                self._waiting -= len(block)
        if self._lost:
            self._write_block(self._tell(self._lost).encode() + b"\n")

    def _write_block(self, block: bytes) -> None:
        text = b"\n" + block if self._torn else block
        view, begin = memoryview(text), 0
        try:
            while begin < len(text):
                done = self._write_some(view[begin : _end_of_piece(text, begin, self._most)])
                begin += done
                if done:
                    self._torn = text[begin - 1] != _NEWLINE
        except (
            OSError
        ):  # the reader has gone, or the disk is full: requests are served all the same
            with self._lock:
                self._lost += text.count(b"\n", begin)
            time.sleep(0.1)

    def _write_some(self, piece: memoryview) -> int:
        try:
            return os.write(self._descriptor, piece)
        except BlockingIOError:  # whoever shares it does not want to wait in it
            select.select([], [self._descriptor], [])
            return 0


def _end_of_piece(text: bytes, begin: int, most: int) -> int:
    """Return how far to write at once: whole lines, or one line."""
    if len(text) - begin <= most:
        return len(text)
    return text.rfind(b"\n", begin, begin + most) + 1 or text.find(b"\n", begin) + 1
