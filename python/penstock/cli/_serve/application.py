"""Finding the application, and the environment that it is imported in."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from penstock.cli._errors import CommandError, ExitCode, one_line

__all__ = ["import_application", "read_env_file"]


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
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        raise CommandError(
            f"there is no module {module_name!r} in {sys.path[0]}; name its folder with --app-dir",
            ExitCode.CONFIG,
        ) from error
    try:
        for part in path.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise CommandError(
            f"module {module_name!r} has no attribute {path!r}", ExitCode.CONFIG
        ) from error
    if not callable(found):
        raise CommandError(
            f"{name} is {type(found).__name__}, which is no application", ExitCode.CONFIG
        )
    if not factory:
        return found
    try:
        return found()
    except TypeError as error:
        raise CommandError(
            f"{name} is no factory of applications: {one_line(error)}; leave --factory out",
            ExitCode.CONFIG,
        ) from error


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
