"""The grammar of ``penstock dash`` and ``penstock grafana``."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli._dashboard.plan import add_serving_options
from penstock.cli._grammar import metrics_address, recording_address
from penstock.cli._interrupts import Interrupts


def add_dash_command(commands: Any, epilog: str) -> None:
    """Add ``dash`` to the subparsers ``commands``."""
    dash = commands.add_parser(
        "dash",
        help="show a recording or instruments as a live page in the browser",
        description="Serve a page with charts, alarms and events until Ctrl-C. It shows a "
        "recording, even while it grows, or the instruments of a run.toml, which are polled "
        "but not recorded. To record them too, use penstock record run.toml --dash.",
        epilog=epilog,
    )
    dash.add_argument(
        "target",
        type=recording_address,
        metavar="TARGET",
        help="a run.toml; or a recording: a file, a folder, or a postgresql:// URI",
    )
    dash.add_argument(
        "--table",
        default="samples",
        metavar="NAME",
        help="the table of SQLite or PostgreSQL (default: %(default)s)",
    )
    dash.add_argument(
        "--layout",
        metavar="RUN_TOML",
        help="for a recording: show the charts and limits of this run.toml",
    )
    dash.add_argument(
        "--metrics",
        metavar="ADDRESS",
        type=metrics_address,
        help="for instruments: serve last values and counts for Prometheus on HOST:PORT, PORT or "
        "unix:PATH",
    )
    add_serving_options(dash, beside=False)
    dash.set_defaults(run=_dash)


def _dash(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._dash.dash_command import run_dash

    return run_dash(options, interrupts)


# The grammar of ``penstock grafana``.


def add_grafana_command(commands: Any, epilog: str) -> None:
    """Add ``grafana`` to the subparsers ``commands``."""
    grafana = commands.add_parser(
        "grafana",
        help="write a Grafana dashboard for a recording's fields",
        description="Write a dashboard, provisioning files and a compose file for Grafana, with a "
        "panel for each field of a recording, its unit, and the limits of a run.toml.",
        epilog=epilog,
    )
    grafana.add_argument(
        "file",
        type=recording_address,
        metavar="FILE",
        help="a file, a folder of parts, or a postgresql:// URI",
    )
    grafana.add_argument("out", metavar="DIR", help="the folder to write, which must not exist")
    grafana.add_argument(
        "--source",
        choices=("influx", "influx2", "influx3", "postgres", "prometheus"),
        default="influx",
        help="where Grafana reads the data (default: %(default)s): InfluxDB 1, or any that "
        "answers InfluxQL; InfluxDB 2, in Flux; InfluxDB 3, in SQL; PostgreSQL; Prometheus",
    )
    grafana.add_argument("--limits", metavar="run.toml", help="show the limits of this file")
    grafana.add_argument(
        "--title",
        default="Penstock",
        metavar="TEXT",
        help="title of the dashboard (default: %(default)s)",
    )
    grafana.add_argument(
        "--table",
        default="samples",
        metavar="NAME",
        help="the table of SQLite or PostgreSQL, and the measurement of InfluxDB "
        "(default: %(default)s)",
    )
    grafana.set_defaults(run=_grafana)


def _grafana(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._dash.grafana_command import run_grafana

    return run_grafana(options)
