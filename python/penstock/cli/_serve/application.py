"""The application: finding it, and what stands around it."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.asgi import Application, Message, Receive, Scope, Send, as_asgi3, is_disconnect
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._serve.logs import AccessBlocks, Loggers, json_line, line_prefix
from penstock.cli._serve.metrics import Counters


def import_application(name: str, *, factory: bool, folder: str) -> Any:
    """Return the application that ``module:attribute`` names.

    Raises:
        CommandError: If there is none (exit code CONFIG).
    """
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise CommandError(
            f"{name!r} does not name an application; write MODULE:ATTRIBUTE, such as main:app",
            ExitCode.CONFIG,
        )
    sys.path.insert(0, folder or os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None or not (module_name + ".").startswith(missing + "."):
            raise _failed(f"the module {module_name!r} cannot be imported", error) from error
        raise CommandError(
            f"there is no module {module_name!r} in {sys.path[0]}; name its folder with --app-dir",
            ExitCode.CONFIG,
        ) from error
    try:
        for part in path.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise CommandError(
            f"module {module_name!r} has no attribute {path!r}; write the name of the application "
            "after the colon",
            ExitCode.CONFIG,
        ) from error
    if not callable(found):
        raise CommandError(
            f"{name} is {type(found).__name__}, which is not an application", ExitCode.CONFIG
        )
    if not factory:
        return found
    try:
        return found()
    except Exception as error:
        called = error.__traceback__ is not None and error.__traceback__.tb_next is not None
        if called or not isinstance(error, TypeError):
            raise _failed(f"the factory {name} has failed", error) from error
        raise CommandError(
            f"{name} is not a factory of applications: {one_line(error)}; leave --factory out",
            ExitCode.CONFIG,
        ) from error


def _failed(what: str, error: Exception) -> CommandError:
    """Print where the application's own code has failed, and return what the command says."""
    place = error.__traceback__
    while place is not None and _is_of_the_import(place.tb_frame.f_code.co_filename):
        place = place.tb_next
    traceback.print_exception(type(error), error, place)
    return CommandError(
        f"{what}: {type(error).__name__}: {one_line(error)}; correct what is shown above",
        ExitCode.CONFIG,
    )


def _is_of_the_import(file: str) -> bool:
    return file in (__file__, importlib.__file__) or file.startswith("<frozen importlib")


def read_env_file(path: str) -> dict[str, str]:
    """Return the variables of a file with a line NAME=VALUE for each.

    A line may begin with ``export``, a value may be quoted, and # begins a comment.

    Raises:
        CommandError: If the file cannot be read or a line is malformed (exit code CONFIG).
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {path}: {one_line(error)}", ExitCode.CONFIG) from error
    values = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.removeprefix("export ").partition("=")
        if not equals or not name.strip().isidentifier():
            raise CommandError(
                f"{path}, line {number}: {text!r} is not NAME=VALUE", ExitCode.CONFIG
            )
        value = value.strip()
        if value[:1] in ("'", '"') and value[:1] in value[1:]:
            value = value[1 : value.index(value[0], 1)]
        else:
            value = value.partition(" #")[0].rstrip()
        values[name.strip()] = value
    return values


# What stands around the application: static files, compression, metrics, the log as JSON.


def built_application(options: argparse.Namespace) -> Application:
    """Return the application that the options name, with static files and compression.

    Raises:
        CommandError: If it cannot be imported, or a folder of files is not there (exit code
            CONFIG).
    """
    app = as_asgi3(
        import_application(options.app, factory=options.factory, folder=options.app_dir),
        options.interface,
        threads=options.wsgi_threads,
        multiprocess=options.workers > 1,
    )
    for prefix, folder in reversed(options.static):
        from penstock.asgi import StaticFiles

        try:
            app = StaticFiles(app, prefix, folder)
        except OSError as error:
            raise CommandError(
                f"--static {prefix}={folder} cannot be served: {error.strerror}; name a folder "
                "that this user may read",
                ExitCode.CONFIG,
            ) from error
        except ValueError as error:
            raise CommandError(
                f"--static {prefix}={folder} cannot be served: {one_line(error)}", ExitCode.CONFIG
            ) from error
    if options.compress:
        from penstock.asgi import Compressed

        app = Compressed(app)
    return app


class Layers:
    """The application of a process with all that observes it.

    Attributes:
        app: What is served.
        access_log: The server's option of this name.
        on_refusal: The server's option of this name.
    """

    def __init__(
        self, options: argparse.Namespace, loggers: Loggers, counters: Counters | None
    ) -> None:
        self.app = built_application(options)
        self.access_log: bool | Callable[[Scope, int], object] = False
        self._blocks: AccessBlocks | None = None
        self._observed: Observed | None = None
        observers: list[Callable[[Scope, int, float], object]] = []
        if options.access_log and loggers.access.isEnabledFor(logging.INFO):
            as_json = options.access_log_format == "json"
            output = _descriptor_of_stdout() if loggers.own_access else None
            if output is not None:
                prefix = line_prefix("INFO", loggers.colours)
                self._blocks = AccessBlocks(output, prefix, loggers.colours, as_json=as_json)
            if as_json:
                observers.append(self._blocks.log_json if self._blocks else _json_to(loggers))
            else:
                self.access_log = self._blocks.log_start if self._blocks else True
        if counters is not None:
            observers.append(lambda scope, status, seconds: counters.count(status, seconds))
        self.on_refusal: Callable[[Scope, int], object] | None = None
        if observers:
            self.app = self._observed = Observed(self.app, observers)
            self.on_refusal = self._observed.note_refusal

    @property
    def in_progress(self) -> int:
        """The number of requests whose response is not complete, if they are observed."""
        return self._observed.in_progress if self._observed is not None else 0

    def close(self) -> None:
        """Write the rest of the access log."""
        if self._blocks is not None:
            self._blocks.close()


def _json_to(loggers: Loggers) -> Callable[[Scope, int, float], Any]:
    def log(scope: Scope, status: int, seconds: float) -> None:
        loggers.access.info("%s", json_line(scope, status, seconds))

    return log


def _descriptor_of_stdout() -> int | None:
    """The descriptor; None if there is none, as where a program replaces ``sys.stdout``."""
    try:
        return None if sys.stdout is None else sys.stdout.fileno()
    except (OSError, ValueError):
        return None


# An application around another one, which tells of each response and its duration.

CLIENT_HAS_GONE = 499
"""The status of a response that nobody waits for any more; nginx's."""

Observer = Callable[[Scope, int, float], object]


class Observed:
    """Calls `observers` with the scope, the status and the seconds of each response.

    Args:
        app: The other application.
        observers: Called when the application has ended. The status is 500 if it has ended before
            a response, as the server then answers, that of the server's own answer where the body
            of the request has failed (400, 408), and 499 if the client has gone before.
    """

    def __init__(self, app: Application, observers: Sequence[Observer]) -> None:
        self._app = app
        self._observers = observers
        # By the identity of the scope: what the server has answered in the application's place.
        self._running: dict[int, int] = {}

    @property
    def in_progress(self) -> int:
        """The number of requests whose application has not ended."""
        return len(self._running)

    def note_refusal(self, scope: Scope, status: int) -> None:
        """Tell the observers of a response of the server itself.

        While the application of a request runs, they are told only when it has ended.
        """
        if id(scope) in self._running:
            self._running[id(scope)] = status
            return
        for observer in self._observers:
            observer(scope, status, 0.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        status = 0
        without_response = 500

        async def note_disconnect() -> Message:
            nonlocal without_response
            message = await receive()
            if message["type"] == "http.disconnect":
                without_response = CLIENT_HAS_GONE
            return message

        def note_status(message: Message) -> Any:
            nonlocal status
            sent = send(message)  # raises, where the status is not one
            if message["type"] == "http.response.start":
                status = message["status"]
            return sent

        began = time.perf_counter()
        self._running[id(scope)] = 0
        try:
            return await self._app(scope, note_disconnect, note_status)
        except BaseException as error:
            if is_disconnect(error):
                without_response = CLIENT_HAS_GONE
            raise
        finally:
            status = self._running.pop(id(scope)) or status or without_response
            seconds = time.perf_counter() - began
            for observer in self._observers:
                observer(scope, status, seconds)
