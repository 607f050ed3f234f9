"""The grammar of the commands for single instruments: penstock alicat."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.interrupts import Interrupts

__all__ = ["add_alicat_commands"]


def add_alicat_commands(commands: Any, epilog: str) -> None:
    """Add the command to argparse's *commands*."""
    common = {
        "epilog": epilog,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }
    alicat = commands.add_parser(
        "alicat", help="ask and set one Alicat instrument (penstock alicat --help)", **common
    )
    actions = alicat.add_subparsers(title="actions", metavar="ACTION", required=True)

    scan = actions.add_parser(
        "scan",
        help="find instruments",
        description="Ask for instruments on serial ports, and print what answers. Changes nothing.",
        **common,
    )
    scan.add_argument("ports", nargs="*", metavar="PORT", help="(default: all of this machine)")
    scan.add_argument(
        "--units", default="A", metavar="LETTERS", help="unit ids to ask for (default: A)"
    )
    scan.add_argument(
        "--bauds",
        default="19200,115200",
        type=_baud_rates,
        metavar="RATES",
        help="baud rates to try, with commas (default: 19200,115200)",
    )
    scan.add_argument("--timeout", type=float, default=0.2, metavar="SECONDS")
    scan.add_argument("--json", action="store_true", help="print a JSON list")
    scan.set_defaults(run=_scan)

    info = actions.add_parser("info", help="tell what an instrument is", **common)
    read = actions.add_parser("read", help="print one reading", **common)

    watch = actions.add_parser("watch", help="print readings until Ctrl-C", **common)
    watch.add_argument("--rate", type=float, default=1.0, metavar="HZ", help="(default: 1)")
    watch.add_argument("--count", type=int, metavar="N", help="end after N readings")

    set_ = actions.add_parser(
        "set",
        help="set a controller's setpoint",
        description="Set the setpoint and read it back. The instrument is asked for its unit "
        "first; with --in, the setpoint is sent only if that is the one.",
        **common,
    )
    gas = actions.add_parser("gas", help="tell or choose the gas", **common)
    tare = actions.add_parser(
        "tare",
        help="take what a sensor shows now for zero",
        description="Tare a sensor. No instrument can tell whether gas flows or its line is "
        "vented, so --yes must say that it is so.",
        **common,
    )
    ramp = actions.add_parser("ramp", help="tell or set how fast the setpoint may change", **common)

    for action in (info, read, watch, set_, gas, tare, ramp):
        action.add_argument(
            "port", metavar="PORT", help="a path such as /dev/ttyUSB0, a URL, or HOST:PORT"
        )
    set_.add_argument("value", type=float, metavar="VALUE")
    set_.add_argument("--in", dest="unit_of_value", metavar="UNIT", help="the unit of VALUE")
    gas.add_argument("gas", nargs="?", metavar="GAS", help="a name such as N2, or a mix's number")
    gas.add_argument("--save", action="store_true", help="keep it over a power cycle")
    tare.add_argument("sensor", choices=("flow", "gauge", "absolute"))
    tare.add_argument("--yes", action="store_true", help="nothing flows, or the line is vented")
    ramp.add_argument("rate", nargs="?", type=float, metavar="RATE", help="0 lifts the limit")
    ramp.add_argument("--per", choices=("ms", "s", "min", "h", "day"), help="the time of RATE")
    for action, run in (
        (info, _info),
        (read, _read),
        (watch, _watch),
        (set_, _set),
        (gas, _gas),
        (tare, _tare),
        (ramp, _ramp),
    ):
        action.add_argument("--unit", default="A", metavar="LETTER", help="unit id (default: A)")
        action.add_argument(
            "--baud", type=int, default=19_200, metavar="RATE", help="(default: %(default)d)"
        )
        action.add_argument(
            "--timeout",
            type=float,
            default=0.5,
            metavar="SECONDS",
            help="for one answer (default: %(default)g)",
        )
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)


def _baud_rates(text: str) -> list[int]:
    try:
        rates = [int(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates or min(rates) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of baud rates; write numbers with commas, such as 19200,115200"
        )
    return rates


def _scan(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.alicat_actions import run_scan

    return run_scan(options, interrupts)


def _info(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.alicat_actions import run_action, tell_info

    return run_action(tell_info, options, interrupts)


def _read(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.alicat_actions import read_once, run_action

    return run_action(read_once, options, interrupts)


def _watch(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.alicat_actions import run_action, watch_readings

    return run_action(watch_readings, options, interrupts)


def _set(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.alicat_actions import run_action, set_setpoint

    return run_action(set_setpoint, options, interrupts)


def _gas(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.alicat_actions import choose_gas, run_action

    return run_action(choose_gas, options, interrupts)


def _tare(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.alicat_actions import run_action, tare_sensor

    return run_action(tare_sensor, options, interrupts)


def _ramp(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.alicat_actions import run_action, set_ramp

    return run_action(set_ramp, options, interrupts)
