"""The grammar of ``penstock grafana``."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli._interrupts import Interrupts

__all__ = ["add_grafana_command"]


def add_grafana_command(commands: Any, epilog: str) -> None:
    """Add ``grafana`` to the subparsers ``commands``."""
    grafana = commands.add_parser(
        "grafana",
        help="write a dashboard of Grafana for a recording's fields",
        description="Write a dashboard, provisioning files and a compose file for Grafana, with a "
        "panel for each field of a recording, its unit, and the limits of a run.toml.",
        epilog=epilog,
    )
    grafana.add_argument(
        "file", metavar="FILE", help="a file, a folder of parts, or a postgresql:// URI"
    )
    grafana.add_argument("out", metavar="DIR", help="the folder to write, which must not exist")
    grafana.add_argument(
        "--source",
        choices=("influx", "postgres", "prometheus"),
        default="influx",
        help="where the data are that Grafana shows (default: %(default)s)",
    )
    grafana.add_argument("--limits", metavar="run.toml", help="show the limits of this file")
    grafana.add_argument(
        "--title",
        default="Penstock",
        metavar="TEXT",
        help="of the dashboard (default: %(default)s)",
    )
    grafana.add_argument(
        "--table",
        default="samples",
        metavar="NAME",
        help="the table of SQLite or PostgreSQL (default: %(default)s)",
    )
    grafana.set_defaults(run=_grafana)


def _grafana(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._grafana.grafana_command import run_grafana

    return run_grafana(options)
