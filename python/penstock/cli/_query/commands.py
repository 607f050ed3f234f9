"""The grammar of ``penstock query``."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli._interrupts import Interrupts
from penstock.cli._query.format_names import FORMATS

__all__ = ["add_query_command"]


def add_query_command(commands: Any, epilog: str) -> None:
    """Add ``query`` to the subparsers ``commands``."""
    query = commands.add_parser(
        "query",
        help="ask a recording a question in SQL",
        description="Run one SELECT of DuckDB's SQL over a recording. Its tables are: recording, "
        "with every row; samples, the answered polls; events, the recorder's own rows. The SQL "
        "reads nothing but the recording, and changes nothing.",
        epilog=epilog,
    )
    query.add_argument(
        "path",
        metavar="PATH",
        help="a file, a folder of parts, a folder tree of Parquet files, an archive as "
        "s3://BUCKET/PREFIX, or a postgresql:// URI",
    )
    query.add_argument("sql", metavar="SQL", help="the question, or - to read it from stdin")
    query.add_argument(
        "--table",
        default="samples",
        metavar="NAME",
        help="the table of SQLite or PostgreSQL (default: %(default)s)",
    )
    query.add_argument(
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)} (default: that of FILE's suffix, else table)",
    )
    query.add_argument("--out", metavar="FILE", help="write the rows to FILE")
    query.add_argument("--overwrite", action="store_true", help="replace FILE")
    query.add_argument(
        "--memory",
        metavar="SIZE",
        help="the most memory of the query, such as 2GB; the rest goes to a temporary folder",
    )
    query.set_defaults(run=_query)


def _query(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._query.query_command import run_query

    return run_query(options, interrupts)
