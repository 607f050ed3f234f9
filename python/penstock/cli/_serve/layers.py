"""What stands around the application: static files, compression, metrics, the log as JSON."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from typing import Any

from penstock.asgi import Application, Scope, as_asgi3
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._serve.access_log import AccessBlocks, json_line
from penstock.cli._serve.application import import_application
from penstock.cli._serve.logs import Loggers, line_prefix
from penstock.cli._serve.metrics.memory import Counters
from penstock.cli._serve.observed import Observed

__all__ = ["Layers", "built_application"]


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
        except (OSError, ValueError) as error:
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
