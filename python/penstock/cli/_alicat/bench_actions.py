"""``penstock alicat lock | hold | mix | pid | unit | raw | do`` and the like."""

from __future__ import annotations

import argparse
import json
import types
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any

from penstock.alicat import (
    Commands,
    Device,
    FlowController,
    LoopAlgorithm,
    PressureController,
    Reading,
)
from penstock.alicat import commands as catalogue
from penstock.alicat.commands import TotalizerConfigRequest, TotalizerId
from penstock.cli._alicat.actions import model_in_brackets
from penstock.cli._errors import CommandError, ExitCode, harmless


async def run_bench(device: Device, options: argparse.Namespace) -> int:
    """Do what the action says, and print what the instrument answers."""
    answer = await _ACTIONS[options.bench](device, options)
    shown = as_json(answer)
    if options.json:
        print(json.dumps(shown), flush=True)
    else:
        print("\n".join(_lines(shown)) or "done", flush=True)
    return ExitCode.OK


def as_json(value: Any) -> Any:
    """What an answer holds, as JSON can say it."""
    if isinstance(value, Reading):
        return {**value.as_dict(), "units": dict(value.units)}
    if isinstance(value, Enum):
        return value.value if isinstance(value, str) else value.name.lower()
    if is_dataclass(value) and not isinstance(value, type):
        shown = {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
        # A result of nothing but a reading is that reading.
        return shown["reading"] if set(shown) == {"reading"} else shown
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(part) for part in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def _lines(shown: Any) -> list[str]:
    if isinstance(shown, Mapping):
        return [
            f"{name.replace('_', ' '):<18} {_words(value)}"
            for name, value in shown.items()
            if value not in (None, "", "units") and name != "units"
        ]
    if isinstance(shown, list):
        return [_words(each) for each in shown]
    return [] if shown is None else [_words(shown)]


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return harmless(", ".join(f"{name} {part}" for name, part in value.items()))
    if isinstance(value, list):
        return harmless(", ".join(map(str, value)))
    return harmless(f"{value:g}" if isinstance(value, float) else str(value))


def _controller(device: Device) -> FlowController | PressureController:
    if isinstance(device, FlowController | PressureController):
        return device
    raise CommandError(
        f"unit {device.unit_id} is a meter{model_in_brackets(device)} and has no valves",
        ExitCode.USAGE,
    )


async def _hold(device: Device, options: argparse.Namespace) -> Any:
    controller = _controller(device)
    if options.closed:
        return await controller.hold_valves_closed(confirm=options.yes)
    return await controller.hold_valves()


async def _totalizer(device: Device, options: argparse.Namespace) -> Any:
    which = TotalizerId(options.totalizer)
    if options.reset == "reset":
        return await device.totalizer_reset(which, confirm=options.yes)
    if options.reset == "reset-peak":
        return await device.totalizer_reset_peak(which, confirm=options.yes)
    return await execute_by_name(
        device, "totalizer-config", TotalizerConfigRequest(which), confirm=False
    )


async def _mix(device: Device, options: argparse.Namespace) -> Any:
    if options.delete:
        if options.name is not None:
            raise CommandError(
                "--delete takes only the number of the mix; leave out the rest", ExitCode.USAGE
            )
        return await device.delete_mix(options.number, confirm=options.yes)
    parts: dict[str | int, float] = {}
    for text in options.gases:
        gas, _, percent = text.partition("=")
        try:
            parts[gas] = float(percent)
        except ValueError:
            raise CommandError(
                f"{text!r} is not part of a mix: write GAS=PERCENT, such as Ar=75", ExitCode.USAGE
            ) from None
    if options.name is None or not parts:
        raise CommandError(
            "a mix needs a name and its gases, such as: 236 Shield Ar=75 CO2=25", ExitCode.USAGE
        )
    return await device.create_mix(options.number, options.name, parts)


async def _pid(device: Device, options: argparse.Namespace) -> Any:
    chosen = options.algorithm
    return await _controller(device).pid(
        algorithm=None if chosen is None else LoopAlgorithm[chosen.upper().replace("-", "_")],
        proportional=options.proportional,
        derivative=options.derivative,
        integral=options.integral,
        confirm=options.yes,
    )


async def _rename(device: Device, options: argparse.Namespace) -> Any:
    await device.change_unit_id(options.letter, confirm=options.yes)
    return {"unit_id": device.unit_id}


async def _baud(device: Device, options: argparse.Namespace) -> Any:
    await device.change_baud_rate(options.rate, confirm=options.yes)
    return {"unit_id": device.unit_id, "baudrate": options.rate}


async def _raw(device: Device, options: argparse.Namespace) -> Any:
    text: str = options.command
    if not text.isascii() or not text.isprintable():
        raise CommandError(f"{text!r} is not a command: write printable ASCII", ExitCode.USAGE)
    letter = device.unit_id.encode()
    rows = await device.client.query_lines(
        letter + text.encode() + b"\r",
        lambda line: line[:1] == letter and line[1:].strip() != b"?",
        lambda line: False,
        wanted=f"an answer to {text!r}",
        first_timeout=options.timeout,
    )
    return [row.decode("ascii", "backslashreplace") for row in rows]


async def _do(device: Device, options: argparse.Namespace) -> Any:
    if options.command == "list":
        return command_names()
    return await execute_by_name(device, options.command, options.fields, confirm=options.yes)


_ACTIONS: Mapping[str, Callable[[Device, argparse.Namespace], Awaitable[Any]]] = {
    "lock": lambda device, _: device.lock_display(),
    "unlock": lambda device, _: device.unlock_display(),
    "hold": _hold,
    "cancel": lambda device, _: _controller(device).cancel_valve_hold(),
    "exhaust": lambda device, options: _controller(device).exhaust(confirm=options.yes),
    "totalizer": _totalizer,
    "mix": _mix,
    "pid": _pid,
    "unit": lambda device, options: device.engineering_units(
        options.quantity, options.wanted, apply_to_group=options.group
    ),
    "baud": _baud,
    "rename": _rename,
    "source": lambda device, options: _controller(device).setpoint_source(options.mode),
    "raw": _raw,
    "do": _do,
}


# A command of the catalogue, chosen and filled in by words.


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
            f"{name!r} is not a command; penstock alicat do PORT list names them", ExitCode.USAGE
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
                f"{word!r} is not a field of {_shown(key)}; it has {known}, as FIELD=VALUE",
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
    raise CommandError(f"{word!r}: not a valid value of this field", ExitCode.USAGE)


def _request_of(key: str) -> type[Any]:
    camel = "".join(part.title() for part in key.split("_"))
    found: type[Any] = getattr(catalogue, _REQUESTS.get(key, f"{camel}Request"))
    return found


def _shown(key: str) -> str:
    return key.lower().replace("_", "-")
