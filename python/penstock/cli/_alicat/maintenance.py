"""``penstock alicat batch | registers | config``: occasional maintenance of an instrument."""

from __future__ import annotations

import argparse
import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

from penstock._durable_files import put_file, sync_folder, write_fully
from penstock.alicat import AlicatValidationError, BasisController, Device, FlowController
from penstock.alicat.commands import TotalizerId
from penstock.alicat.configuration import (
    Configuration,
    Difference,
    differences,
    read_configuration,
    restore_configuration,
)
from penstock.cli._alicat.actions import model_in_brackets
from penstock.cli._errors import CommandError, ExitCode, harmless

_REGISTER = re.compile(r"(\d{1,3})(?:=(-?\d{1,10}))?", re.ASCII)


async def run_batch(device: Device, options: argparse.Namespace) -> int:
    """Print the volume of the batch, or set it."""
    if isinstance(device, BasisController):
        found = await device.batch(options.volume)
        answer: dict[str, Any] = {"unit_id": found.unit_id, "volume": found.volume, "unit": None}
    elif isinstance(device, FlowController):
        batch = await device.totalizer_batch(
            options.volume, totalizer=TotalizerId(options.totalizer)
        )
        answer = {
            "unit_id": batch.unit_id,
            "totalizer": batch.totalizer.value,
            "volume": batch.volume,
            "unit": batch.unit_label,
        }
    else:
        raise CommandError(
            f"unit {device.unit_id} is not a flow controller{model_in_brackets(device)} and has no "
            "batches",
            ExitCode.USAGE,
        )
    text = f"{answer['volume']:g} {answer['unit'] or ''}".rstrip()
    _print(answer, text if answer["volume"] else "off", options)
    return ExitCode.OK


async def use_registers(device: Device, options: argparse.Namespace) -> int:
    """Print registers; write those that are named with a value, if --yes says so."""
    wanted: list[tuple[int, int | None]] = []
    for text in options.registers:
        match = _REGISTER.fullmatch(text)
        if match is None:
            raise CommandError(
                f"{text!r} is not a register: write its number, or NUMBER=VALUE to set it",
                ExitCode.USAGE,
            )
        wanted.append((int(match[1]), None if match[2] is None else int(match[2])))
    if not options.yes and any(value is not None for _, value in wanted):
        raise CommandError(
            "no register was written: a wrong value can make the instrument useless; repeat it "
            "with --yes",
            ExitCode.USAGE,
        )
    held: dict[int, int] = {}
    for register, value in wanted:
        held[register] = (
            await device.read_register(register)
            if value is None
            else await device.write_register(register, value, confirm=True)
        )
    text = "\n".join(f"{register:03} = {value}" for register, value in held.items())
    _print({"unit_id": device.unit_id, "registers": held}, text, options)
    return ExitCode.OK


async def save_config(device: Device, options: argparse.Namespace) -> int:
    """Write the instrument's settings to a new file."""
    found = await read_configuration(device)
    path = Path(options.file)
    text = json.dumps(found.to_document(), indent=2) + "\n"
    _write(path, text, overwrite=options.overwrite)
    _print(
        {"file": str(path), "settings": len(found.settings), "unreadable": found.unreadable},
        f"{len(found.settings)} settings saved to {path}",
        options,
    )
    return ExitCode.OK


async def restore_config(device: Device, options: argparse.Namespace) -> int:
    """Write the settings of a file; exit code INCOMPLETE if some still differ."""
    wanted = _load(options.file)
    if not options.yes:
        raise CommandError(
            "nothing was restored: the settings of the instrument would be overwritten; see them "
            "with penstock alicat config diff, then repeat it with --yes",
            ExitCode.USAGE,
        )
    left = await restore_configuration(device, wanted, confirm=True)
    _print_differences(left, options, same=f"all settings are those of {options.file}")
    return ExitCode.INCOMPLETE if left else ExitCode.OK


async def diff_config(device: Device, options: argparse.Namespace) -> int:
    """Print the settings that differ from a file; exit code INCOMPLETE if there are any."""
    found = differences(_load(options.file), await read_configuration(device))
    _print_differences(found, options, same=f"all settings are those of {options.file}")
    return ExitCode.INCOMPLETE if found else ExitCode.OK


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    # Complete or not at all: a part of the settings must never be restored.
    try:
        os.close(put_file(path, partial(write_fully, data=text.encode()), overwrite=overwrite))
        sync_folder(os.fspath(path))
    except FileExistsError as error:
        raise CommandError(
            f"{path} already exists; choose another name, or replace it with --overwrite",
            ExitCode.OUTPUT,
        ) from error
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", ExitCode.OUTPUT) from error


def _load(name: str) -> Configuration:
    path = Path(name)
    try:
        return Configuration.from_document(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", ExitCode.USAGE) from error
    except (ValueError, AlicatValidationError) as error:
        raise CommandError(f"{path}: {error}", ExitCode.USAGE) from error


def _print_differences(
    found: tuple[Difference, ...], options: argparse.Namespace, *, same: str
) -> None:
    as_json = {d.name: {"file": d.before, "instrument": d.after} for d in found}
    lines = [f"{d.name}: {_words(d.before)} in the file, {_words(d.after)} now" for d in found]
    _print(as_json, "\n".join(lines) or same, options)


def _words(value: Any) -> str:
    if value is None:
        return "absent"
    return harmless(", ".join(f"{name} {part}" for name, part in value.items()))


def _print(as_json: Any, text: str, options: argparse.Namespace) -> None:
    print(json.dumps(as_json) if options.json else text, flush=True)
