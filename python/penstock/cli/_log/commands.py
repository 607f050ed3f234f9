"""The grammar of ``penstock log``."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli._interrupts import Interrupts

__all__ = ["add_log_commands"]


def add_log_commands(commands: Any, epilog: str) -> None:
    """Add ``log check``, ``log salvage`` and ``log tail`` to the subparsers ``commands``."""
    common: dict[str, Any] = {
        "epilog": epilog,
    }
    log = commands.add_parser(
        "log",
        help="check, salvage or print an append log",
        description="Commands on the files of penstock.files.AppendLog. None changes a log.",
        **common,
    )
    actions = log.add_subparsers(title="actions", metavar="ACTION", required=True)

    check = actions.add_parser(
        "check",
        help="read a log to its end and say what is damaged",
        description="Read each log to its end, count its records, and name the bytes that are "
        "none. The exit code is 8 if acknowledged records are damaged. An end that an unfinished "
        "write has left is named; opening the log cuts it off.",
        **common,
    )
    check.add_argument("files", nargs="+", metavar="FILE", help="an append log")
    check.add_argument("--json", action="store_true", help="print a JSON object for each file")
    check.set_defaults(run=_check)

    salvage = actions.add_parser(
        "salvage",
        help="copy the good records of a damaged log to a new one",
        description="Copy every good record of a log to a new log, and name the bytes that could "
        "not be copied. The damaged log is not changed. The exit code is 8 if acknowledged records "
        "were damaged.",
        **common,
    )
    salvage.add_argument("file", metavar="FILE", help="an append log")
    salvage.add_argument("--to", required=True, metavar="NEW", help="the new log")
    salvage.add_argument("--json", action="store_true", help="print a JSON object")
    salvage.set_defaults(run=_salvage)

    tail = actions.add_parser(
        "tail",
        help="print the last records of a log, and wait for further ones",
        description="Print the last records of a log, one a line. Bytes that are no printable "
        "UTF-8 are escaped.",
        **common,
    )
    tail.add_argument("file", metavar="FILE", help="an append log")
    tail.add_argument(
        "-n",
        "--lines",
        type=_count,
        default=10,
        metavar="COUNT",
        help="how many records (default: %(default)s)",
    )
    tail.add_argument(
        "-f", "--follow", action="store_true", help="wait for further records, until Ctrl-C"
    )
    form = tail.add_mutually_exclusive_group()
    form.add_argument("--hex", action="store_true", help="print bytes in hexadecimal")
    form.add_argument("--json", action="store_true", help="print each record as a JSON string")
    tail.set_defaults(run=_tail)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} records: give 0 or more")
    return number


def _check(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._log.inspection import check_logs

    return check_logs(options, interrupts)


def _salvage(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._log.inspection import salvage_log

    return salvage_log(options, interrupts)


def _tail(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._log.inspection import tail_log

    return tail_log(options, interrupts)
