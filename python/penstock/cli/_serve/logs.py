"""The logs of ``penstock serve``: uvicorn's lines, or what a file says."""

from __future__ import annotations

import argparse
import asyncio
import functools
import http
import importlib
import json
import logging
import logging.config
import os
import select
import stat
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from penstock.asgi import Scope, client_text, quoted_path
from penstock.cli._errors import CommandError, ExitCode, one_line

_TRACE = 5
_COLOURS = {"DEBUG": 36, "INFO": 32, "WARNING": 33, "ERROR": 31, "CRITICAL": 91, "TRACE": 34}


class Loggers:
    """The two loggers of the server: of errors, and of requests.

    Attributes:
        own_access: Whether the access log has no handler of the user's, so that its lines need
            not pass through logging.
        colours: Whether lines are painted.
    """

    own_access = False
    colours = False

    def __init__(self, prefix: str, error: str, access: str) -> None:
        self.parent = logging.getLogger(prefix)
        self.error = logging.getLogger(error)
        self.access = logging.getLogger(access)


_OWN = ("penstock", "penstock.asgi", "penstock.access")
_UVICORNS = ("uvicorn", "uvicorn.error", "uvicorn.access")


def line_prefix(level: str, colours: bool) -> str:
    """Return what a line begins with."""
    text = painted(level, _COLOURS.get(level, 0)) if colours else level
    return f"{text}:{' ' * (9 - len(level))}"


class _Formatter(logging.Formatter):
    def __init__(self, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def formatMessage(self, record: logging.LogRecord) -> str:
        return line_prefix(record.levelname, self._colours) + self._text(record)

    def _text(self, record: logging.LogRecord) -> str:
        return record.message


class _AccessFormatter(_Formatter):
    def _text(self, record: logging.LogRecord) -> str:
        if not isinstance(record.args, tuple) or len(record.args) != 5:
            return record.message
        client, method, path, version, status = record.args
        texts = (str(client), str(method), str(path), str(version))
        return access_text(*texts, int(str(status)), self._colours)


def set_up_logs(options: argparse.Namespace) -> Loggers:
    """Configure logging, and return the server's loggers.

    A configuration that names uvicorn's loggers gets its lines.

    Raises:
        CommandError: If the configuration cannot be used (exit code CONFIG).
    """
    logging.addLevelName(_TRACE, "TRACE")
    names = _OWN
    if options.log_config is not None:
        names = _UVICORNS if "uvicorn" in _configure(options.log_config) else _OWN
    loggers = Loggers(*names)
    if options.log_config is None:
        colours = sys.stdout.isatty() if options.use_colors is None else options.use_colors
        for logger, stream, formatter in (
            (loggers.parent, sys.stderr, _Formatter(colours)),
            (loggers.access, sys.stdout, _AccessFormatter(colours)),
        ):
            handler = logging.StreamHandler(stream)
            handler.setFormatter(formatter)
            logger.handlers = [handler]
            logger.propagate = False
            logger.setLevel(logging.INFO)
        loggers.own_access = True
        loggers.colours = colours
    if options.log_level is not None:
        level = _TRACE if options.log_level == "trace" else options.log_level.upper()
        for logger in (loggers.parent, loggers.error, loggers.access):
            logger.setLevel(level)
    return loggers


def _configure(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
        if path.endswith(".json"):
            logging.config.dictConfig(json.loads(text))
        elif path.endswith((".yaml", ".yml")):
            logging.config.dictConfig(_yaml(text))
        else:
            logging.config.fileConfig(path, disable_existing_loggers=False)
    except CommandError:
        raise
    except Exception as error:  # each of logging's formats has exceptions of its own
        raise CommandError(
            f"{path} is not a configuration for logging: {one_line(error)}", ExitCode.CONFIG
        ) from error
    return text


def _yaml(text: str) -> Any:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError as error:
        raise CommandError(
            "a .yaml file for --log-config needs the package PyYAML: pip install pyyaml",
            ExitCode.MISSING_PART,
        ) from error
    return yaml.safe_load(text)


# The access log of ``penstock serve``, written in blocks by a thread.

_DELAY = 0.1
_MOST = 512
_MOST_BYTES = 1 << 24
"""Bytes that wait for a slow reader of the log."""
_NEWLINE = ord("\n")
_END_SECONDS = 5.0
_STATUS_COLOURS = {1: 97, 2: 32, 3: 33, 4: 31, 5: 91}
_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}
_LONGEST_KEPT = 256
"""Characters of a target whose text is kept for the next line with it."""

_Line = tuple[Any, str, str, bytes, str, int]
"""The client, the method, the path, the query, the version and the status of a response."""


@functools.lru_cache(512)
def _quoted(path: str, query: bytes) -> str:
    return quoted_path({"path": path, "query_string": query})


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
        self._lines: list[_Line | str] = []
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
        # A closure would cost more than the values.
        self._add(
            (
                scope.get("client"),
                scope["method"],
                scope["path"],
                scope["query_string"],
                scope["http_version"],
                status,
            )
        )

    def _text_of(self, line: _Line) -> str:
        client, method, path, query, version, status = line
        place = client_text({"client": client})
        if len(path) + len(query) <= _LONGEST_KEPT:
            target = _quoted(path, query)
        else:
            target = quoted_path({"path": path, "query_string": query})
        return self._prefix + access_text(place, method, target, version, status, self._colours)

    def log_json(self, scope: Scope, status: int, seconds: float) -> None:
        """Log a response as JSON."""
        self._add(json_line(scope, status, seconds))

    def _add(self, line: _Line | str) -> None:
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
        texts = (line if isinstance(line, str) else self._text_of(line) for line in lines)
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
        except OSError:
            # The reader has gone, or the disk is full: requests are served all the same.
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
