"""``penstock log check``, ``salvage`` and ``tail``."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import anyio

import penstock
from penstock import files
from penstock.cli._errors import CommandError, ExitCode, explain_os_error, harmless, one_line
from penstock.cli._interrupts import Interrupts

T = TypeVar("T")


def check_logs(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Read each log of ``options.files``; return FOUND if acknowledged records are damaged."""
    found = False
    for file in options.files:
        with readable(file):
            report = run_interruptibly(files.check_log(file), interrupts)
        found = found or report.damaged
        _print_report(report, options.json)
    return ExitCode.FOUND if found else ExitCode.OK


def salvage_log(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Copy the good records of ``options.file`` to ``options.to``."""
    with readable(options.file):
        try:
            report = run_interruptibly(files.salvage_log(options.file, options.to), interrupts)
        except FileExistsError as error:
            raise CommandError(
                f"{options.to} already exists; choose another name with --to", ExitCode.OUTPUT
            ) from error
        except OSError as error:
            if error.filename == options.file:
                raise
            raise explain_os_error(error, options.to, kind="file", option="--to") from error
    _print_report(report, options.json, copied_to=options.to)
    return ExitCode.FOUND if report.damaged else ExitCode.OK


def run_interruptibly(work: Coroutine[Any, Any, T], interrupts: Interrupts) -> T:
    """Run ``work`` on a loop, and cancel it at a signal."""

    async def main() -> T | None:
        with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
            return await work
        return None

    with interrupts.deferred():
        result = penstock.run(main())
    interrupts.raise_if_received()
    return result  # type: ignore[return-value]


@contextmanager
def readable(file: str) -> Iterator[None]:
    """Turn the errors of reading ``file`` into sentences."""
    try:
        yield
    except files.LogError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(
            f"{file} cannot be read: {error.strerror or one_line(error)}; check the path and its "
            "permissions",
            ExitCode.OUTPUT,
        ) from error


def _print_report(report: files.LogReport, as_json: bool, *, copied_to: str | None = None) -> None:
    if as_json:
        facts = {**dataclasses.asdict(report), "damaged": report.damaged}
        print(json.dumps(facts if copied_to is None else {**facts, "copied_to": copied_to}))
        return
    verdict = "damaged" if report.damaged else "no damage"
    kind = "its creation was cut off" if report.format is None else f"format {report.format}"
    print(f"{report.path}: {verdict}; {kind}, {report.size} bytes, records {report.records}")
    for gap in report.gaps:
        print(f"  {gap}")
    if copied_to is not None:
        print(f"  copied {report.records} records to {copied_to}")


# ``penstock log tail``.


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
