"""The grammar of the commands on recorded files, and of penstock archive."""

from __future__ import annotations

import argparse
import math
from datetime import datetime
from typing import Any

from penstock.cli._grammar import archive_address, recording_address
from penstock.cli._interrupts import Interrupts

_RECORDING = "a file, a folder of parts, or a postgresql:// URI"


def add_recordings_commands(commands: Any, epilog: str) -> None:
    """Add ``recover``, ``verify``, ``export`` and ``plot`` to the subparsers ``commands``."""

    def add(name: str, help_text: str, description: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(
            name,
            help=help_text,
            description=description,
            epilog=epilog,
        )
        return parser

    recover = add(
        "recover",
        "complete the files of a run that was cut off",
        "Complete files after a kill or a power cut: add the rows of the journal, and cut off a "
        "torn end, which is kept next to the file in NAME.torn. For a folder, all recordings in "
        "it are completed. A complete file is not changed.",
    )
    recover.add_argument(
        "files",
        nargs="+",
        type=recording_address,
        metavar="FILE",
        help="a file of the run, or its folder",
    )
    recover.add_argument(
        "--force",
        action="store_true",
        help="cut off even more than a kill can damage; what is cut off is kept next to the file",
    )
    recover.add_argument(
        "--sign", metavar="KEY", help="the key of a signed recording, to sign the new seals"
    )
    recover.add_argument("--json", action="store_true", help="print a JSON object for each file")
    recover.set_defaults(run=_recover)

    verify = add(
        "verify",
        "check that a recording is complete, in order and unchanged",
        "Check recordings for gaps, order, duplicates, missing columns, and changes since the "
        "files were sealed. Slots that the rows report as missed are counted, but are not gaps. "
        "The exit code is 8 if something is wrong.",
    )
    verify.add_argument("files", nargs="+", type=recording_address, metavar="FILE", help=_RECORDING)
    _add_table(verify)
    verify.add_argument(
        "--key", metavar="PUBLIC", help="the key that must have signed the seals, as PEM"
    )
    verify.add_argument(
        "--deep", action="store_true", help="read all pages and columns, even of unchanged files"
    )
    verify.add_argument("--json", action="store_true", help="print the findings as JSON")
    verify.set_defaults(run=_verify)

    export = add(
        "export",
        "convert a recording to another format, other time steps or other units",
        "Write a recording to OUT in the format of its suffix: .csv, .parquet, .arrow, .jsonl, "
        ".xlsx, .nc or .h5.",
    )
    export.add_argument("file", type=recording_address, metavar="FILE", help=_RECORDING)
    export.add_argument("out", metavar="OUT", help="the file to write")
    _add_table(export)
    export.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="COLUMN",
        help="only this quantity; may be repeated",
    )
    _add_devices(export)
    _add_range(export)
    export.add_argument(
        "--wide",
        action="store_true",
        help="one row per time, and a column for each device and quantity; best with --every",
    )
    export.add_argument(
        "--time",
        choices=("utc", "local", "elapsed"),
        default="utc",
        help="add a column with the local time, or the seconds since the first row",
    )
    export.add_argument(
        "--header-units", action="store_true", help="name columns as 'Mass_Flow [SCCM]'"
    )
    export.add_argument(
        "--every", type=_seconds, metavar="SECONDS", help="one row for each device and step"
    )
    export.add_argument(
        "--method",
        choices=("mean", "min", "max", "first", "last"),
        default="mean",
        help="how to combine the numbers of a step (default: %(default)s)",
    )
    export.add_argument(
        "--unit",
        action="append",
        default=[],
        metavar="COLUMN=UNIT",
        help="convert a column, such as Mass_Flow=SLPM; may be repeated",
    )
    export.add_argument(
        "--standard",
        metavar="T,P",
        help="the standard conditions of the instrument's flow, such as 25C,14.696psia",
    )
    export.add_argument(
        "--to-standard", metavar="T,P", help="the standard conditions to convert to"
    )
    export.add_argument("--overwrite", action="store_true", help="replace OUT")
    export.add_argument("--json", action="store_true", help="print what was done as JSON")
    export.set_defaults(run=_export)

    plot = add(
        "plot",
        "plot recordings: PNG, SVG, or in the terminal",
        "Plot a column of recordings over time. Without --out, plot in the terminal.",
    )
    plot.add_argument("files", nargs="+", type=recording_address, metavar="FILE", help=_RECORDING)
    _add_table(plot)
    plot.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="COLUMN",
        help="the column (default: the controlled quantity); may be repeated",
    )
    _add_devices(plot)
    _add_range(plot)
    plot.add_argument(
        "--time",
        choices=("elapsed", "local", "utc"),
        default="elapsed",
        help="the time axis: time since the start, local time or UTC (default: %(default)s)",
    )
    plot.add_argument("--out", metavar="PICTURE", help="a .png or .svg file to write")
    plot.add_argument(
        "--width", type=_pixels, default=1296, metavar="PIXELS", help="(default: %(default)s)"
    )
    plot.add_argument(
        "--height",
        type=_pixels,
        default=648,
        metavar="PIXELS",
        help="about this many for each unit (default: %(default)s)",
    )
    plot.add_argument("--overwrite", action="store_true", help="replace PICTURE")
    plot.set_defaults(run=_plot)


def _add_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--table",
        default="samples",
        metavar="NAME",
        help="the table of SQLite or PostgreSQL (default: %(default)s)",
    )


def _add_devices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help="only this device; may be repeated",
    )


def _add_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="begin",
        type=_moment,
        metavar="TIME",
        help="leave out rows before this time, such as 2026-11-25T22:00 (local time) or with a "
        "zone "
        "2026-11-25T22:00Z",
    )
    parser.add_argument(
        "--to",
        dest="end",
        type=_moment,
        metavar="TIME",
        help="leave out rows at this time and later",
    )


def _recover(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._stored.verify_command import recover_files

    return recover_files(options)


def _verify(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._stored.verify_command import run_verify

    return run_verify(options)


def _export(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._stored.export_command import run_export

    return run_export(options)


def _plot(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._stored.plot_command import run_plot

    return run_plot(options)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1e-6 <= value <= 1e9:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time in seconds; write a number such as 60"
        )
    return value


def _moment(text: str) -> int:
    """Nanoseconds since 1970 (UTC)."""
    try:
        moment = datetime.fromisoformat(text).astimezone()
        whole = moment.replace(microsecond=0).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write it as 2026-11-25T22:43:18 (local time), with a zone as "
            "2026-11-25T22:43:18Z or 2026-11-25T22:43:18+01:00, or a date alone"
        ) from None
    return round(whole) * 1_000_000_000 + moment.microsecond * 1000


def _pixels(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 100 <= int(text) <= 20_000:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of pixels; write one from 100 to 20000"
        )
    return int(text)


# The grammar of ``penstock query``.

QUERY_FORMATS = ("table", "csv", "json", "jsonl", "parquet")


def add_query_command(commands: Any, epilog: str) -> None:
    """Add ``query`` to the subparsers ``commands``."""
    query = commands.add_parser(
        "query",
        help="query a recording in SQL",
        description="Run one SELECT of DuckDB's SQL over a recording. Its tables are: recording, "
        "with every row; samples, the answered polls; events, the recorder's own rows. The SQL "
        "reads nothing but the recording, and changes nothing.",
        epilog=epilog,
    )
    query.add_argument(
        "path",
        type=archive_address,
        metavar="PATH",
        help="a file, a folder of parts, a folder tree of Parquet files, an archive as "
        "s3://BUCKET/PREFIX, or a postgresql:// URI",
    )
    query.add_argument("sql", metavar="SQL", help="the query, or - to read it from stdin")
    query.add_argument(
        "--table",
        default="samples",
        metavar="NAME",
        help="the table of SQLite or PostgreSQL (default: %(default)s)",
    )
    query.add_argument(
        "--format",
        choices=QUERY_FORMATS,
        metavar="FORMAT",
        help=f"{', '.join(QUERY_FORMATS)} (default: that of FILE's suffix, else table)",
    )
    query.add_argument("--out", metavar="FILE", help="write the rows to FILE")
    query.add_argument("--overwrite", action="store_true", help="replace FILE")
    query.add_argument(
        "--memory",
        metavar="SIZE",
        help="the memory limit of the query, such as 2GB; more data go to a temporary folder",
    )
    query.set_defaults(run=_query)


def _query(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._stored.query_command import run_query

    return run_query(options, interrupts)


# The grammar of ``penstock archive``.


def add_archive_command(commands: Any, epilog: str) -> None:
    """Add ``archive`` to the subparsers ``commands``."""
    archive = commands.add_parser(
        "archive",
        help="archive what recorders publish to NATS, as Parquet or in PostgreSQL",
        description="Take the rows of recorders from a NATS JetStream stream and write them as "
        "partitioned Parquet, or to PostgreSQL. Any number of these commands can share a "
        "stream; each row is in the archive once, even if commands are killed. penstock query "
        "reads the archive.",
        epilog=epilog,
    )
    archive.add_argument(
        "url", metavar="URL", help="nats://HOST[:PORT]/PREFIX, as for the recorders"
    )
    archive.add_argument(
        "target",
        type=archive_address,
        metavar="TARGET",
        help="a folder, s3://BUCKET/PREFIX, or a postgresql:// URI",
    )
    archive.add_argument(
        "--table",
        default="samples",
        metavar="NAME",
        help="the table of PostgreSQL (default: %(default)s)",
    )
    archive.add_argument("--stream", metavar="NAME", help="the stream (default: the prefix)")
    archive.add_argument(
        "--once", action="store_true", help="end when everything in the stream is archived"
    )
    archive.add_argument(
        "--part-seconds",
        type=_archiver_seconds,
        default=60.0,
        metavar="S",
        help="archive rows after this time at the latest (default: 60)",
    )
    archive.add_argument(
        "--purge",
        action="store_true",
        help="remove archived messages from the stream, except each device's last one",
    )
    archive.add_argument(
        "--lease",
        type=_archiver_seconds,
        default=15.0,
        metavar="S",
        help="take over from an archiver that was killed after this time (default: 15)",
    )
    archive.add_argument("--token-file", metavar="FILE", help="a file with the server's token")
    archive.add_argument(
        "--ca-file", metavar="FILE", help="certificates of a certificate authority, as PEM"
    )
    archive.add_argument("--json", action="store_true", help="print the counts as JSON")
    archive.set_defaults(run=_archive)


def _archiver_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1.0 <= value <= 86400.0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time in seconds; write a number from 1 to 86400"
        )
    return value


def _archive(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._stored.archive_command import run_archive

    return run_archive(options, interrupts)
