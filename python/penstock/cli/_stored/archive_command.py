"""``penstock archive``: a member of the group that archives a stream."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._interrupts import Interrupts
from penstock.loop import new_event_loop
from penstock.record.archives import (
    Archiver,
    ArchiverOptions,
    ArchiverRefused,
    PostgresArchive,
    RunOptions,
    Store,
    store_at,
)
from penstock.record.errors import SinkDependencyError
from penstock.record.postgres_server import is_postgres


def run_archive(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Archive ``options.url`` into ``options.target`` until a signal comes, or once."""
    try:
        target = _target(options)
        archiver = Archiver(
            options.url,
            target,
            stream=options.stream,
            token_file=options.token_file,
            ca_file=options.ca_file,
            options=ArchiverOptions(
                run=RunOptions(part_duration=options.part_seconds),
                purge=options.purge,
                lease=options.lease,
            ),
            told=lambda text: print(f"penstock: {text}", file=sys.stderr, flush=True),
        )
    except ValueError as error:
        raise CommandError(one_line(error), ExitCode.USAGE) from error
    except SinkDependencyError as error:
        raise CommandError(one_line(error), ExitCode.MISSING_PART) from error

    async def main() -> None:
        with interrupts.stopping(archiver.stop):
            await archiver.run(once=options.once)

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(main())
    except ArchiverRefused as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    counts = archiver.counts
    if options.json:
        print(json.dumps(asdict(counts)))
    else:
        parts = "tables" if isinstance(target, PostgresArchive) else "files"
        print(f"archived {counts.rows} rows in {counts.files} {parts}: {target}")
    if counts.missing or counts.refused:
        kept = (
            "the table penstock_archive_refused"
            if isinstance(target, PostgresArchive)
            else f"{target}/_archive/RUN/refused"
        )
        print(
            f"penstock: the stream had lost {counts.missing} messages before they were read, and "
            f"{counts.refused} did not come from a recorder; those are kept in {kept}",
            file=sys.stderr,
        )
    interrupts.raise_if_received()
    return ExitCode.OK


def _target(options: argparse.Namespace) -> Store | PostgresArchive:
    if is_postgres(options.target):
        return PostgresArchive(options.target, table=options.table)
    return store_at(options.target)
