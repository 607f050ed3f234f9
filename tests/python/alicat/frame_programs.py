"""Random damage to data frames and to the tables that describe them, each result judged.

A program takes an instrument's ``??D*`` table and frames, captured or simulated, and changes bytes
of either. The parser may refuse, by its own errors and no others. What it accepts is compared with
a second reading of the same bytes, written here without the parser: the right letter, as many
columns as the table has, each number with its width and decimals, and known status codes behind.

    python -m tests.python.alicat.frame_programs --programs 1000 --seed 1 --gc-threshold 1
"""

from __future__ import annotations

import math
import random
import re
import sys
import traceback
from functools import cache

from penstock.alicat import AlicatError, DataFrameFormat, StatusCode
from penstock.alicat._instrument.data_frame import parse_data_frame_format
from penstock.alicat._instrument.reading import ParsedFrame
from penstock.sim import AsciiUnit
from penstock.sim._physics.firmware import FIRMWARES

from .captures import (
    FORMAT_5V12,
    FORMAT_10V04_METER,
    FORMAT_10V20,
    FRAME_5V12,
    FRAME_10V04_METER,
    FRAME_10V20,
)
from .random_programs import main
from .simulated import ASCII_FAMILIES

FRAMES_A_PROGRAM = 40
_STATUSES = {code.value.encode() for code in StatusCode}
_NUMBER = re.compile(rb"[+-]?[0-9]+(?:\.[0-9]*)?|-{2,}")
_ALPHABET = b" \0\n\r+-.0123456789?@ABNLCKHDx\x08\x7f\x80\xff"


@cache
def corpus() -> tuple[tuple[tuple[bytes, ...], bytes], ...]:
    """Tables and a frame of each: captured ones, and those of every simulated firmware."""
    found: list[tuple[tuple[bytes, ...], bytes]] = [
        (tuple(FORMAT_10V20), FRAME_10V20),
        (tuple(FORMAT_10V04_METER), FRAME_10V04_METER),
        (tuple(FORMAT_5V12), FRAME_5V12),
    ]
    for make in ASCII_FAMILIES:
        for name in FIRMWARES:
            if name == "basis":
                continue
            unit: AsciiUnit = make("A", firmware=FIRMWARES[name], clock=lambda: 0.0)
            table = tuple(line.encode("latin-1") for line in unit.answer("??D*"))
            found.append((table, unit.answer("")[0].encode("latin-1")))
    return tuple(found)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes after one to three changes, as a line, an adapter or a bad contact makes them."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        place = chance.randrange(len(changed) + 1) if changed else 0
        match chance.randrange(7):
            case 0 if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
            case 1 if place < len(changed):
                changed[place] = chance.choice(_ALPHABET)
            case 2:
                del changed[place : place + chance.choice((1, 1, 1, 2, 8))]
            case 3:
                changed[place:place] = bytes([chance.choice(_ALPHABET)])
            case 4:
                other = chance.randrange(len(changed) + 1)
                changed[place:place] = changed[other : other + chance.randrange(12)]
            case 5:
                del changed[place:]
            case _:
                changed += b" " + chance.choice(sorted(_STATUSES))
    return bytes(changed)


def damaged_table(table: tuple[bytes, ...], chance: random.Random) -> list[bytes]:
    """The rows after one to three changes to bytes, rows, or their order."""
    rows = list(table)
    for _ in range(chance.choice((1, 1, 2, 3))):
        place = chance.randrange(len(rows)) if rows else 0
        match chance.randrange(6):
            case 0 if rows:
                del rows[place]
            case 1 if rows:
                rows.insert(place, rows[chance.randrange(len(rows))])
            case 2:
                rows = rows[:place]
            case _ if rows:
                rows[place] = damaged(rows[place], chance)
    return rows


def objection(line: bytes, frame: ParsedFrame, form: DataFrameFormat, sample: bytes) -> str | None:
    """Why ``frame`` is no reading of ``line``; None if it is one."""
    tokens = line.split(b" ")
    tokens = [token for token in tokens if token]
    if not tokens or tokens[0] != frame.unit_id.encode():
        return f"begins with {tokens[:1]}"
    columns, rest = tokens[1 : 1 + len(form.fields)], tokens[1 + len(form.fields) :]
    if len(columns) < len(form.fields) or list(frame.values) != list(form.names()):
        return f"has {len(columns)} columns"
    shown = [token for token in sample.split(b" ") if token][1:]
    for field, token, before in zip(form.fields, columns, shown, strict=False):
        value = frame.values[field.name]
        if field.kind == "text":
            if value != token.decode("ascii", "replace"):
                return f"{field.name} is {value!r} of {token!r}"
            continue
        if not isinstance(value, float) or not _NUMBER.fullmatch(token):
            return f"{field.name} is {value!r} of {token!r}"
        if math.isnan(value):
            if not token.startswith(b"--"):
                return f"{field.name} is missing of {token!r}"
            continue
        if value != float(token):
            return f"{field.name} is {value!r} of {token!r}"
        unsigned = before[:1].isdigit()
        if field.width in ((len(before), len(before) + 1) if unsigned else (len(before),)):
            decimals = len(before.partition(b".")[2])
            if len(token) < len(before):
                return f"{field.name} of {token!r} has shrunk from {before!r}"
            if field.decimals == decimals and len(token.partition(b".")[2]) != decimals:
                return f"{field.name} of {token!r} has other decimals than {before!r}"
    codes = {code.value.encode() for code in frame.status}
    codes |= {code.encode() for code in frame.unknown_status}
    if set(rest) != codes:
        return f"status {sorted(codes)} of {rest}"
    advertised = {code.encode() for code in form.status_codes}
    if not codes <= _STATUSES | advertised:
        return f"status {sorted(codes)} is none"
    return None


def run_program(seed: int) -> str | None:
    """Run one program; what was wrong, or None."""
    chance = random.Random(f"frames/{seed}")
    table, sample = chance.choice(corpus())
    rows = list(table) if chance.random() < 0.7 else damaged_table(table, chance)
    try:
        form = parse_data_frame_format(rows)
        decoder = form.decoder("A", sample)
    except AlicatError:
        return None
    except Exception:
        return f"program {seed}: table {rows}: {traceback.format_exc()}"
    for _ in range(FRAMES_A_PROGRAM):
        line = damaged(sample, chance)
        for _ in range(2):  # a gas name that is new is believed the second time
            try:
                frame = decoder(line)
            except AlicatError:
                continue
            except Exception:
                return f"program {seed}: {line!r} under {rows}: {traceback.format_exc()}"
            why = objection(line, frame, form, sample)
            if why is not None:
                return f"program {seed}: {line!r} under {rows}: {why}"
    return None


if __name__ == "__main__":
    sys.exit(main(run_program, __doc__ or ""))
