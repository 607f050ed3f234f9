"""``penstock log tail``."""

from __future__ import annotations

import argparse
import json
from collections import deque

from penstock import files
from penstock.cli._errors import ExitCode, harmless
from penstock.cli._interrupts import Interrupts
from penstock.cli._log.inspection import readable, run_interruptibly

__all__ = ["tail_log"]


def tail_log(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Print the last records, and those that follow, as ``options`` say."""
    with readable(options.file):
        run_interruptibly(_tail(options), interrupts)
    return ExitCode.OK


async def _tail(options: argparse.Namespace) -> None:
    count = 0
    last: deque[bytes] = deque(maxlen=options.lines)
    async for record in files.read_log(options.file):
        last.append(record)
        count += 1
    for record in last:
        print(_as_text(record, options), flush=options.follow)
    if options.follow:
        number = 0
        async for record in files.follow_log(options.file):
            number += 1
            if number > count:
                print(_as_text(record, options), flush=True)


def _as_text(record: bytes, options: argparse.Namespace) -> str:
    if options.hex:
        return record.hex(" ")
    text = record.decode("utf-8", "backslashreplace")
    return json.dumps(text) if options.json else harmless(text)
