"""The access log of ``penstock serve``, written in blocks by a thread."""

from __future__ import annotations

import asyncio
import http
import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TextIO

from penstock.asgi import Scope, client_text, quoted_path

__all__ = ["AccessBlocks", "access_text", "json_line"]

_DELAY = 0.1
_MOST = 512
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
    thread writes them, so neither a request nor the loop waits for the reader of the log. A
    process that is killed loses the lines of its last tenth of a second.

    Args:
        stream: Where the lines go.
        prefix: What each line begins with.
        colours: Whether they are painted.
    """

    def __init__(self, stream: TextIO, prefix: str, colours: bool) -> None:
        self._stream = stream
        self._prefix = prefix
        self._colours = colours
        self._lines: list[Callable[[], str] | str] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._blocks: SimpleQueue[str | None] = SimpleQueue()
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
        if self._lines:
            lines, self._lines = self._lines, []
            text = "\n".join(line if isinstance(line, str) else line() for line in lines)
            self._blocks.put(text + "\n")

    def close(self) -> None:
        """Write what there is. A reader that takes nothing is not waited for for long."""
        self.flush()
        self._blocks.put(None)
        self._thread.join(_END_SECONDS)

    def _write(self) -> None:
        while (block := self._blocks.get()) is not None:
            try:
                self._stream.write(block)
                self._stream.flush()
            except (OSError, ValueError):
                time.sleep(0.1)  # its reader has gone; requests are served all the same
