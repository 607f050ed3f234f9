"""``penstock new``: a configuration file of the instruments that answer, ready to be recorded."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock._durable_files import put_file, sync_folder, write_fully
from penstock.cli._alicat.modbus_families import MODBUS_FAMILIES
from penstock.cli._alicat.scan import check_found, search
from penstock.cli._errors import CommandError, ExitCode, explain_os_error, harmless
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.config import parse_config
from penstock.cli._serial.ports import links_to

_HEAD = """\
# The instruments that answered, for:  penstock record {file}
# Check the file without recording:    penstock record {file} --check
# docs/cli.md explains every key. A line that begins with "# " after this head is a suggestion.

[record]
rate_hz = 10              # polls a second, of each device
# duration = 3600         # seconds; without it the run lasts until Ctrl-C
# out = "run-1"           # the folder for the files; without it a new run-<time>
formats = ["parquet", "csv"]   # also "jsonl", "sqlite", "arrow", and "parts" for long runs
# fallback = "/mnt/other/run-1"  # where files continue while the disk of out is full or missing
"""

_CONTROLLER = """\

# Setpoints, in the instrument's own unit; at is in seconds after the start.
# [[device.setpoint]]
# at = 0
# value = 0.0
"""

_SAFE_STATE = """\

# Its state after an alarm and at the end of the run: hold its valves, or a setpoint.
# [device.safe_state]
# hold = true
"""

_LIMIT = """\

# An alarm while a field is outside; penstock record --check shows the fields and units.
# [[device.limit]]
# field = "Mass_Flow"
# low = 0.0
# high = 100.0
"""


@dataclass(frozen=True, slots=True)
class _Entry:
    """The table of one instrument; ``lacking`` is what must be stated before it can be recorded."""

    name: str
    lines: tuple[str, ...]
    lacking: str = ""
    controls: bool = False
    by_text: bool = True

    def text(self) -> str:
        lines = ["[[device]]", *self.lines]
        if self.lacking:
            lines = [f"# {line}" for line in (f"Not recorded yet: {self.lacking}.", *lines)]
        text = "\n" + "\n".join(lines) + "\n"
        if self.controls and not self.lacking:
            text += _CONTROLLER + (_SAFE_STATE if self.by_text else "")
        return text


def run_new(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Search for instruments and write ``options.file``, which must not be there.

    Raises:
        CommandError: it is there, or cannot be written; no instrument answers.
        Interrupted: a signal has ended the search. No file is left then.
    """
    path = Path(options.file)
    _check_free(path)
    found = search(options, interrupts)
    check_found(options, found)
    entries = _entries(found, options.modbus)
    lacking = [entry for entry in entries if entry.lacking]
    if len(lacking) == len(entries):
        told = "; ".join(f"{entry.name}: {entry.lacking}" for entry in lacking)
        raise CommandError(
            f"{path} was not written, because too little is known about the instruments that "
            "answered: "
            f"{told}. Write the file by hand, starting from examples/run.toml",
            ExitCode.DEVICE,
        )
    text = _HEAD.format(file=harmless(os.fspath(path))) + "".join(each.text() for each in entries)
    text += _LIMIT
    data = text.encode()
    parse_config(data, os.fspath(path))
    _write(path, data)
    count = len(entries) - len(lacking)
    for entry in lacking:
        print(f"{entry.name} is in it as a comment: {entry.lacking}")
    print(
        f"wrote {path}: {count} {'instrument' if count == 1 else 'instruments'}; give them names "
        f"of your own, then run penstock record {path} --check",
        flush=True,
    )
    return ExitCode.OK


def _check_free(path: Path) -> None:
    try:
        if os.path.lexists(path):
            raise _taken(path)
        if not path.parent.is_dir():
            raise CommandError(
                f"cannot write {path}: there is no folder {path.parent}; create it, or choose "
                "another name",
                ExitCode.OUTPUT,
            )
    except (OSError, ValueError) as error:
        raise CommandError(
            f"{os.fspath(path)!r} is not the name of a file ({error}); choose another name",
            ExitCode.OUTPUT,
        ) from error


def _write(path: Path, data: bytes) -> None:
    try:
        os.close(put_file(path, lambda number: write_fully(number, data), overwrite=False))
        sync_folder(os.fspath(path))
    except FileExistsError as error:
        raise _taken(path) from error
    except OSError as error:
        raise explain_os_error(error, path, kind="file", option="another name") from error


def _taken(path: Path) -> CommandError:
    return CommandError(
        f"{path} already exists and was not changed; move it, or choose another name",
        ExitCode.OUTPUT,
    )


# -- the tables -------------------------------------------------------------------------------


def _entries(found: Sequence[dict[str, Any]], modbus: str | None) -> list[_Entry]:
    """A table for each instrument. One that was found by two names of a port has one."""
    rates: dict[str, int] = {}
    for port, group in _by_port(found).items():
        rates[port] = Counter(each["baudrate"] for each in group).most_common(1)[0][0]
    entries: list[_Entry] = []
    seen: set[tuple[str, str]] = set()
    names: set[str] = set()
    for facts in found:
        real = os.path.realpath(facts["port"])
        if (real, facts["unit_id"]) in seen:
            continue
        seen.add((real, facts["unit_id"]))
        name = _name(facts, names)
        names.add(name)
        lacking = _lacking(facts)
        if not lacking and facts["baudrate"] != rates[real]:
            lacking = (
                f"it answers at {facts['baudrate']} baud and others on its port at {rates[real]}; "
                "give all the same rate"
            )
        entries.append(_entry(name, facts, modbus, lacking))
    return entries


def _by_port(found: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for facts in found:
        groups.setdefault(os.path.realpath(facts["port"]), []).append(facts)
    return groups


def _lacking(facts: dict[str, Any]) -> str:
    """What of a Modbus instrument no register tells, and a recording needs."""
    family = facts.get("family")
    if family is None:
        return ""
    if family.startswith("basis-"):
        return "write the decimal places of its flow readings: no register contains them"
    if family not in MODBUS_FAMILIES:
        near = [name for name in MODBUS_FAMILIES if name.endswith(family)]
        return f"write which family it is, one of {', '.join(near or MODBUS_FAMILIES)}"
    return ""


def _entry(name: str, facts: dict[str, Any], modbus: str | None, lacking: str) -> _Entry:
    port = facts["port"]
    links = links_to(port)
    stable = links[0] if links else port
    lines = [
        f"name = {_quoted(name)}" + _about(facts),
        f"port = {_quoted(stable)}" + (f"   # now {harmless(port)}" if stable != port else ""),
    ]
    if modbus is None:
        lines.append(f"unit_id = {_quoted(facts['unit_id'])}")
    else:
        lines += [
            f"protocol = {_quoted(f'modbus-{modbus}')}",
            f"number = {facts['unit_id']}",
            f"family = {_quoted(facts['family'])}",
            '# units = { mass_flow = "SCCM" }   # no register contains its units',
        ]
        if facts["family"].startswith("basis-"):
            lines.append("decimals = 2")
    if modbus != "tcp":
        lines.append(f"baudrate = {facts['baudrate']}")
    lines.append("# timeout = 0.5          # seconds to wait for one reply")
    lines.append("# rate_hz = 10           # polls a second of this device alone")
    lines.append("# required = true        # the run does not begin without it")
    kind = str(facts.get("kind") or facts.get("family") or "")
    return _Entry(name, tuple(lines), lacking, kind.endswith("controller"), modbus is None)


def _about(facts: dict[str, Any]) -> str:
    known = [f"serial {facts['serial']}"] if facts.get("serial") else []
    if facts.get("firmware"):
        known.append(f"firmware {facts['firmware']}")
    if facts.get("model"):
        known.insert(0, str(facts["model"]))
    return f"   # {harmless(', '.join(known))}" if known else ""


def _name(facts: dict[str, Any], taken: set[str]) -> str:
    """A name by what it is and its address, such as ``mc-500sccm-d-a``."""
    what = str(facts.get("model") or facts.get("family") or facts.get("kind") or "device")
    plain = re.sub(r"[^a-z0-9]+", "-", f"{what}-{facts['unit_id']}".lower()).strip("-")
    number, name = 1, plain
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    return name


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())
