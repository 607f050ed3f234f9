"""The command line's grammar, and nothing that takes time to import."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from penstock.cli.alicat_commands import add_alicat_commands
from penstock.cli.interrupts import Interrupts
from penstock.cli.serial_commands import add_serial_commands

__all__ = ["build_parser"]

_EPILOG = """\
exit codes:
  0    the command did all of its work
  1    an unforeseen error, a defect of Penstock
  2    the command line is wrong
  3    the configuration file is missing or malformed
  4    a port or instrument could not be opened; nothing was recorded
  5    a file could not be written; what was recorded before is on disk
  6    the run came to its end, but some polls or setpoint steps failed
  7    a package or the native extension is not installed
  129, 130, 143  ended by SIGHUP, Ctrl-C (SIGINT), SIGTERM; the files are complete
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser; ``options.run(options, interrupts)`` is the chosen command."""
    parser = argparse.ArgumentParser(
        prog="penstock",
        description="Record serial instruments on Penstock's own event loop, and talk to them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="print the version number and leave"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = commands.add_parser(
        "demo",
        help="record four simulated mass-flow controllers",
        description="Start four simulated Alicat mass-flow controllers in a process of their own, "
        "step their setpoints, and record them into Parquet and CSV.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    demo.add_argument(
        "--duration",
        type=_positive,
        default=10.0,
        metavar="SECONDS",
        help="length of the run (default: %(default)g)",
    )
    demo.add_argument(
        "--rate",
        type=_rate,
        default=20.0,
        metavar="HZ",
        help="polls a second, of each device (default: %(default)g)",
    )
    demo.set_defaults(run=_demo)

    record = commands.add_parser(
        "record",
        help="record the instruments that a configuration file names",
        description="Record real instruments on their serial ports, as a TOML file tells "
        "(docs/cli.md and examples/run.toml explain it).",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    task = record.add_mutually_exclusive_group(required=True)
    task.add_argument("--config", metavar="FILE", help="the run's TOML file")
    task.add_argument(
        "--recover",
        metavar="FILE",
        help="record nothing; make the Parquet or CSV file of a run that was cut off whole again",
    )
    record.add_argument(
        "--duration",
        type=_positive,
        metavar="SECONDS",
        help="length of the run, in place of the file's (default: until Ctrl-C)",
    )
    record.set_defaults(run=_record)

    for command in (demo, record):
        command.add_argument(
            "--out",
            type=_folder,
            metavar="DIR",
            help="folder for the files, made when missing (default: a new one in this folder)",
        )
        command.add_argument(
            "--overwrite", action="store_true", help="replace files of an earlier run in DIR"
        )
        command.add_argument("--no-plot", action="store_true", help="draw no picture at the end")
        command.add_argument(
            "--json",
            action="store_true",
            help="print the summary as JSON on standard output, the progress on standard error",
        )

    doctor = commands.add_parser(
        "doctor",
        help="tell what this machine gives Penstock",
        description="Look at this machine and tell, a line for each part, what Penstock uses of it"
        " and why; where something is missing, the line says what helps.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.set_defaults(run=_doctor)

    add_serial_commands(commands, _EPILOG)
    add_alicat_commands(commands, _EPILOG)

    commands.add_parser(
        "sim",
        help="run simulated instruments on pseudo-terminals (penstock sim --help tells more)",
        add_help=False,
    )
    return parser


def _demo(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.demo import run_demo

    return run_demo(options, interrupts)


def _record(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.record import run_record

    return run_record(options, interrupts)


def _doctor(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli.doctor import run_doctor

    return run_doctor(options, interrupts)


class _Version(argparse.Action):
    """Like argparse's own, but looks the number up only when it is asked for."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        from penstock import __version__

        print(f"penstock {__version__}")
        parser.exit()


def _positive(text: str) -> float:
    return _number(text, above=0.0, to=10 * 366 * 86400.0, meaning="a time in seconds")


def _rate(text: str) -> float:
    return _number(text, above=0.0, to=1000.0, meaning="a rate in hertz")


def _number(text: str, *, above: float, to: float, meaning: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not above < value <= to:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not {meaning}; write a number above {above:g} and up to {to:g}"
        )
    return value


def _folder(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("is not the name of a folder; write one, such as run-1")
    return text
