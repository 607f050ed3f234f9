"""A command of the catalogue, chosen and filled in by words."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

from penstock.alicat import Commands, Device
from penstock.alicat import commands as catalogue
from penstock.cli._errors import CommandError, ExitCode

__all__ = ["command_names", "execute_by_name"]

_ELSEWHERE = {
    "BAUD_RATE": "baud",
    "CREATE_MIX": "mix",
    "POLL_DATA": "read",
    "DATA_FRAME_FORMAT_QUERY": "info",
}
"""Commands that do not stand alone, and the action that has them."""
_REQUESTS = {"VE_QUERY": "VeRequest"}
_WORDS = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}


def command_names() -> list[str]:
    """A line for each command: its name, and its fields."""
    lines = []
    for name in sorted(set(Commands.all()) - set(_ELSEWHERE)):
        stated = (field for field in fields(_request_of(name)) if field.name != "confirm")
        words = [
            f"[{field.name}=…]" if field.default is not MISSING else f"{field.name}=…"
            for field in stated
        ]
        lines.append(" ".join((_shown(name), *words)))
    return lines


async def execute_by_name(
    device: Device, name: str, request: Sequence[str] | object, *, confirm: bool
) -> Any:
    """Execute a command with a request, or with ``FIELD=VALUE`` words that make one.

    Raises:
        CommandError: (USAGE) there is no such command or field, or a value is none of its kind.
        AlicatError: as for :meth:`Device.execute`.
    """
    key = name.upper().replace("-", "_")
    if key in _ELSEWHERE:
        raise CommandError(f"use penstock alicat {_ELSEWHERE[key]} for this", ExitCode.USAGE)
    command: Any = Commands.all().get(key)
    if command is None:
        raise CommandError(
            f"{name!r} is no command; penstock alicat do PORT list names them", ExitCode.USAGE
        )
    if isinstance(request, list | tuple):
        request = _filled_in(key, request, confirm=confirm)
    answer = await device.execute(command, request)
    # Commands that are answered by a data frame.
    return getattr(answer, "values", answer)


def _filled_in(key: str, words: Sequence[str], *, confirm: bool) -> object:
    kind = _request_of(key)
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for word in words:
        field, separator, text = word.partition("=")
        field = field.replace("-", "_")
        if field not in hints or field == "confirm" or not separator:
            known = ", ".join(name for name in hints if name != "confirm") or "none"
            raise CommandError(
                f"{word!r} is no field of {_shown(key)}; it has {known}, as FIELD=VALUE",
                ExitCode.USAGE,
            )
        values[field] = _value(text, hints[field], word)
    if "confirm" in hints:
        values["confirm"] = confirm
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in values]
    if missing:
        raise CommandError(f"{_shown(key)} needs {', '.join(missing)}", ExitCode.USAGE)
    return kind(**values)


def _value(text: str, hint: Any, word: str) -> Any:
    """A value of one of the types that a hint allows, in the order of its types."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = typing.get_args(hint) if union else (hint,)
    if typing.get_origin(hint) is not None and not union:
        return text.split(",")  # a sequence of names
    for kind in (k for k in kinds if isinstance(k, type) and issubclass(k, Enum)):
        if text.upper().replace("-", "_") in kind.__members__:
            return kind[text.upper().replace("-", "_")]
        if text.isdigit() and int(text) in {member.value for member in kind}:
            return kind(int(text))
    if bool in kinds and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        if number in kinds:
            try:
                return number(text)
            except ValueError:
                continue
    if str in kinds:
        return text
    raise CommandError(f"{word!r}: that is no value of this field", ExitCode.USAGE)


def _request_of(key: str) -> type[Any]:
    camel = "".join(part.title() for part in key.split("_"))
    found: type[Any] = getattr(catalogue, _REQUESTS.get(key, f"{camel}Request"))
    return found


def _shown(key: str) -> str:
    return key.lower().replace("_", "-")
