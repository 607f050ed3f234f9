"""Options of ``penstock serve`` in the environment: ``PENSTOCK_PORT``, ``UVICORN_PORT``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

_PREFIXES = ("PENSTOCK_", "UVICORN_")
"""The first one that is set counts."""

_OWN = frozenset(
    {
        *("timeout_worker_start", "limit_max_memory", "limit_max_memory_jitter", "wsgi_threads"),
        *("static", "compress", "metrics", "check", "access_log_format"),
        *("timeout_head", "timeout_body", "timeout_send"),
    }
)
"""What uvicorn has no option for; so its prefix means nothing there."""

_PLURALS = {
    name: f"{name}s" for name in ("header", "reload_dir", "reload_include", "reload_exclude")
}
"""Options that may be repeated have these names in uvicorn's environment."""

_TRUTH = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}


def truth(text: str) -> bool:
    """Return the truth value of a word, as the type of an argument."""
    value = _TRUTH.get(text.strip().lower())
    if value is None:
        raise argparse.ArgumentTypeError(f"{text} is neither true nor false")
    return value


class Repeated(argparse.Action):
    """An option that may be repeated. On the command line it replaces what the environment has."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest, None)
        # A tuple is from the environment.
        kept = before if isinstance(before, list) else []
        setattr(namespace, self.dest, [*kept, values])


def given_application() -> str | None:
    """Return the application that the environment names, if it does."""
    found = _find("app", os.environ)
    return None if found is None else found[1]


def options_in_environment(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the options that the environment has, which those on the command line replace.

    As in uvicorn's environment, an empty variable counts as absent, and the values of an option
    that may be repeated are separated by white space, folders by ``os.pathsep``. A wrong value ends
    the program, as on the command line.
    """
    options = argparse.Namespace()
    for action in parser._actions:
        if not action.option_strings or action.dest == "help":
            continue
        found = _find(action.dest, os.environ)
        if found is not None:
            setattr(options, action.dest, _value_of(action, *found, parser))
    return options


def _find(option: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    for prefix in _PREFIXES:
        if prefix == "UVICORN_" and option in _OWN:
            continue
        name = prefix + _PLURALS.get(option, option).upper()
        if value := environment.get(name):
            return name, value
    return None


def _value_of(
    action: argparse.Action, variable: str, text: str, parser: argparse.ArgumentParser
) -> Any:
    try:
        if action.nargs == 0:  # a flag
            return truth(text)
        if isinstance(action, Repeated):
            parts = text.split(os.pathsep if action.dest == "reload_dir" else None)
            return tuple(_converted(action, part) for part in parts)
        return _converted(action, text)
    except argparse.ArgumentTypeError as error:
        parser.error(f"the variable {variable}: {error}")
    except ValueError:
        parser.error(f"the variable {variable}: {text!r} is not valid")


def _converted(action: argparse.Action, text: str) -> Any:
    value = action.type(text) if callable(action.type) else text
    choices = list(action.choices or ())
    if choices and value not in choices:
        raise argparse.ArgumentTypeError(f"{text} is not one of {', '.join(choices)}")
    return value
