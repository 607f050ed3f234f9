"""``penstock serve --check``: whether it would start, without listening."""

from __future__ import annotations

import argparse

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._serve.layers import built_application
from penstock.cli._serve.logs import Loggers
from penstock.cli._serve.running import server_arguments

__all__ = ["check"]


def check(options: argparse.Namespace, loggers: Loggers) -> int:
    """Import the application and look at the options. The lifespan is not run.

    Raises:
        CommandError: If it would not start (exit code CONFIG).
    """
    from penstock.asgi import ServerOptions

    built_application(options)
    arguments = server_arguments(options, loggers)
    for name in ("ssl", "backlog"):
        del arguments[name]
    try:
        ServerOptions(**arguments)
    except ValueError as error:
        raise CommandError(one_line(error), ExitCode.CONFIG) from error
    print(f"{options.app} can be served")
    return ExitCode.OK
