"""The grammar of ``penstock archive``."""

from __future__ import annotations

import argparse
import math
from typing import Any

from penstock.cli._interrupts import Interrupts

__all__ = ["add_archive_command"]


def add_archive_command(commands: Any, epilog: str) -> None:
    """Add ``archive`` to the subparsers ``commands``."""
    archive = commands.add_parser(
        "archive",
        help="write what recorders publish to NATS as Parquet, or into PostgreSQL",
        description="Take the rows of recorders from a stream of NATS JetStream and write them as "
        "partitioned Parquet, or into PostgreSQL. Any number of these commands share the runs of a "
        "stream; each row is in the archive once, whichever of them is killed. penstock query "
        "reads the archive.",
        epilog=epilog,
    )
    archive.add_argument("url", metavar="URL", help="nats://HOST[:PORT]/PREFIX, the recorders' own")
    archive.add_argument(
        "target", metavar="TARGET", help="a folder, s3://BUCKET/PREFIX, or a postgresql:// URI"
    )
    archive.add_argument(
        "--table",
        default="samples",
        metavar="NAME",
        help="the table of PostgreSQL (default: %(default)s)",
    )
    archive.add_argument("--stream", metavar="NAME", help="the stream (default: the prefix)")
    archive.add_argument(
        "--once", action="store_true", help="end when everything is archived that is there"
    )
    archive.add_argument(
        "--part-seconds",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="rows are in the archive after this time at the latest (default: 60)",
    )
    archive.add_argument(
        "--purge",
        action="store_true",
        help="remove from the stream what is archived, but for each device's last message",
    )
    archive.add_argument(
        "--lease",
        type=_seconds,
        default=15.0,
        metavar="S",
        help="take over from an archiver that was killed after this time (default: 15)",
    )
    archive.add_argument("--token-file", metavar="FILE", help="a file with the server's token")
    archive.add_argument("--ca-file", metavar="FILE", help="certificates of an authority, as PEM")
    archive.add_argument("--json", action="store_true", help="print the counts as JSON")
    archive.set_defaults(run=_archive)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1.0 <= value <= 86400.0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time of an archiver; write seconds from 1 to 86400"
        )
    return value


def _archive(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._archive.archive_command import run_archive

    return run_archive(options, interrupts)
