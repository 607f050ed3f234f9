"""The logs of ``penstock serve``: uvicorn's lines, or what a file says."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import logging.config
import sys
from pathlib import Path
from typing import Any

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._serve.access_log import access_text, painted

__all__ = ["Loggers", "line_prefix", "set_up_logs"]

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
            f"{path} is no configuration for logging: {one_line(error)}", ExitCode.CONFIG
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
