"""The command line's grammar. Imports only light modules, so ``--help`` is fast."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

from penstock.cli._alicat.commands import add_alicat_commands, add_search_options
from penstock.cli._dash.commands import add_dash_command, add_grafana_command
from penstock.cli._dashboard.plan import add_serving_options
from penstock.cli._grammar import NamingParser, metrics_address, postgres_dsn
from penstock.cli._interrupts import Interrupts
from penstock.cli._serial.commands import add_serial_commands
from penstock.cli._serve.commands import add_serve_command
from penstock.cli._stored.commands import (
    add_archive_command,
    add_query_command,
    add_recordings_commands,
)

_EPILOG = """\
exit codes:
  0    the command did all of its work
  1    an unexpected error, which is a defect of Penstock
  2    the command line is wrong
  3    the configuration file is missing or malformed; serve: no application
  4    a port or required instrument could not be opened; nothing was recorded
  5    a file could not be written or read; what was recorded before is on disk
  6    the run is complete, but some polls or setpoint steps failed
  7    a package or the native extension is not installed
  8    verify found something wrong with a recording, or log check with a log
  129, 130, 143  ended by SIGHUP, SIGINT, SIGTERM; the files are complete
  141  the reader of standard output, such as head, has closed it
"""
_OF_A_COMMAND = """\
exit codes:
  penstock --help lists them
"""


def build_parser(arguments: Sequence[str] | None = None) -> NamingParser:
    """Return the parser; ``options.run(options, interrupts)`` runs the chosen command.

    It parses ``arguments`` and no others; without any, all.
    """
    parser = NamingParser(
        prog="penstock",
        description="Record and control serial instruments on Penstock's own event loop.",
        epilog=_EPILOG,
    )
    parser.words = arguments
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="print the version number and exit"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    demo = commands.add_parser(
        "demo",
        help="record four simulated mass-flow controllers",
        description="Start four simulated Alicat mass-flow controllers in a separate process, "
        "step their setpoints, and record them to Parquet and CSV.",
        epilog=_OF_A_COMMAND,
    )
    demo.add_argument(
        "--duration",
        type=_positive,
        metavar="SECONDS",
        help="length of the run (default: 10, with --dash 600)",
    )
    demo.add_argument(
        "--rate",
        type=_rate,
        default=20.0,
        metavar="HZ",
        help="polls per second of each device (default: %(default)g)",
    )
    demo.set_defaults(run=_demo)

    record = commands.add_parser(
        "record",
        help="record the instruments that a configuration file names",
        description="Record real instruments on their serial ports, as a TOML file describes "
        "(docs/cli.md and examples/run.toml explain it).",
        usage="penstock record [-h] [--duration SECONDS] [--out DIR] [--overwrite]\n"
        "                       [--resume [--force]] [--check] [--no-plot] [--to URL]\n"
        "                       [--metrics ADDRESS] [--postgres-dsn DSN] [--sign KEY]\n"
        "                       [--json] run.toml [--dash [PORT]] [--host ADDRESS]\n"
        "                       [--allow-host NAME] [--password-file FILE] [--control]\n"
        "                       [--limit DEVICE[.FIELD]=LOW:HIGH[:HYSTERESIS]]\n"
        "                       [--silence SECONDS]",
        epilog=_OF_A_COMMAND,
    )
    task = record.add_mutually_exclusive_group(required=True)
    task.add_argument("config", nargs="?", metavar="run.toml", help="the run's TOML file")
    task.add_argument("--config", dest="config_option", metavar="FILE", help=argparse.SUPPRESS)
    record.add_argument(
        "--duration",
        type=_positive,
        metavar="SECONDS",
        help="length of the run, overrides the file's (default: until Ctrl-C)",
    )
    record.add_argument(
        "--resume",
        action="store_true",
        help="continue the files in DIR with a new part; a torn end is recovered first",
    )
    record.add_argument(
        "--force",
        action="store_true",
        help="let --resume cut off more than a kill can damage; what it cuts off is kept next to "
        "the file",
    )
    record.add_argument(
        "--check",
        action="store_true",
        help="check the file, the output folder and the instruments; record and change nothing",
    )
    record.add_argument(
        "--to",
        action="append",
        metavar="URL",
        help="also record to this server: influx://HOST/DATABASE (may be repeated)",
    )
    record.add_argument(
        "--metrics",
        metavar="ADDRESS",
        type=metrics_address,
        help="serve last values and counts for Prometheus on HOST:PORT, PORT or unix:PATH",
    )
    record.add_argument(
        "--postgres-dsn",
        metavar="DSN",
        type=postgres_dsn,
        help="also record to the table samples of this PostgreSQL database",
    )
    record.add_argument(
        "--sign",
        metavar="KEY",
        help="sign the seals of the files with this private key (Ed25519, PEM)",
    )
    record.set_defaults(run=_record)

    new = commands.add_parser(
        "new",
        help="write a configuration file for the instruments that answer",
        description="Search serial ports for instruments, and write a TOML file for penstock "
        "record with a table for each one. The instruments are not changed.",
        usage="penstock new [-h] [--units IDS] [--bauds RATES] [--timeout SECONDS]\n"
        "                    [--modbus {rtu,tcp}] run.toml [PORT ...]",
        epilog=_OF_A_COMMAND,
    )
    new.add_argument("file", metavar="run.toml", help="the file, which must not exist")
    add_search_options(new)
    new.set_defaults(run=_new)

    note = commands.add_parser(
        "note",
        help="add a note to a running recording",
        description="Record a note as an event, with the present time and the name of its author.",
        epilog=_OF_A_COMMAND,
    )
    note.add_argument("folder", metavar="RUN", help="the recording's folder, or a file in it")
    note.add_argument("text", metavar="TEXT", nargs="+", help="the note")
    note.add_argument("--device", metavar="NAME", help="the device that it concerns")
    note.add_argument("--author", metavar="NAME", help="author of the note (default: this user)")
    note.set_defaults(run=_note)

    send = commands.add_parser(
        "send",
        help="send the rows that a recording has left in a spool",
        description="Send the rows that wait in the spool of a sink to its server, when no "
        "recorder uses the spool any more. The spool is removed when all are sent.",
        epilog=_OF_A_COMMAND,
    )
    send.add_argument("spool", metavar="SPOOL", help="the folder, such as run-1/samples.nats-spool")
    send.add_argument("url", metavar="URL", help="the server's URL, as in the recording")
    send.add_argument("--token-file", metavar="FILE", help="a file with the server's token")
    send.add_argument("--password-file", metavar="FILE", help="a file with the password")
    send.add_argument(
        "--ca-file", metavar="FILE", help="certificates of a certificate authority, as PEM"
    )
    send.add_argument(
        "--timeout",
        type=_positive,
        default=30.0,
        metavar="S",
        help="give up when the server cannot be reached for this time (default: 30)",
    )
    send.set_defaults(run=_send)

    alarm = commands.add_parser(
        "alarm",
        help="list, acknowledge, shelve or reset alarms of a running recording",
        description="List the alarms of a running recording, or change the state of one: "
        "acknowledge (a person has seen it), shelve (notify nobody for a time), unshelve, reset (a "
        "latched one). Each change is an event of the recording.",
        epilog=_OF_A_COMMAND,
    )
    alarm.add_argument("folder", metavar="RUN", help="the recording's folder, or a file in it")
    alarm.add_argument(
        "action",
        metavar="ACTION",
        choices=("list", "acknowledge", "shelve", "unshelve", "reset"),
        nargs="?",
        default="list",
        help="list (default), acknowledge, shelve, unshelve or reset",
    )
    alarm.add_argument("alarm", metavar="ALARM", nargs="?", help="the alarm, as shown by list")
    alarm.add_argument(
        "--seconds",
        type=_positive,
        default=3600.0,
        metavar="S",
        help="shelve for this time (default: 3600)",
    )
    alarm.add_argument("--author", metavar="NAME", help="name to record (default: this user)")
    alarm.add_argument("--json", action="store_true", help="print the list as JSON")
    alarm.set_defaults(run=_alarm)

    safe = commands.add_parser(
        "safe",
        help="bring the controllers of a configuration file into their safe states",
        description="Bring each instrument of a run.toml that has a safe_state into that state, "
        "and try again until it is reached. A service manager calls this after a recorder was "
        "killed.",
        epilog=_OF_A_COMMAND,
    )
    safe.add_argument("config", metavar="run.toml", help="the run's TOML file")
    safe.add_argument(
        "--timeout",
        type=_positive,
        default=30.0,
        metavar="SECONDS",
        help="how long to try (default: %(default)g)",
    )
    safe.set_defaults(run=_safe)

    watch = commands.add_parser(
        "watch",
        help="show live values of the instruments of a configuration file; record nothing",
        description="Poll the instruments of a run.toml and show their values and recent curves "
        "in a table. Nothing is written, and no setpoint is sent.",
        epilog=_OF_A_COMMAND,
    )
    watch.add_argument("config", metavar="run.toml", help="the run's TOML file")
    watch.add_argument(
        "--duration", type=_positive, metavar="SECONDS", help="how long (default: until Ctrl-C)"
    )
    watch.add_argument(
        "--json",
        action="store_true",
        help="print a JSON object a second with the newest value of every device",
    )
    watch.set_defaults(run=_watch)

    for command in (demo, record):
        command.add_argument(
            "--out",
            type=_folder,
            metavar="DIR",
            help="folder for the files, created if missing (default: a new one in this folder)",
        )
        command.add_argument(
            "--overwrite", action="store_true", help="replace files of an earlier run in DIR"
        )
        command.add_argument("--no-plot", action="store_true", help="draw no plot at the end")
        command.add_argument(
            "--json",
            action="store_true",
            help="print the summary as JSON on standard output, the progress on standard error",
        )

        add_serving_options(command, beside=True)

    add_dash_command(commands, _OF_A_COMMAND)
    add_recordings_commands(commands, _OF_A_COMMAND)
    add_query_command(commands, _OF_A_COMMAND)
    add_archive_command(commands, _OF_A_COMMAND)
    add_grafana_command(commands, _OF_A_COMMAND)

    doctor = commands.add_parser(
        "doctor",
        help="check what this machine offers Penstock",
        description="Check this machine and print, one line for each part, what Penstock uses and"
        " why. If something is missing, the line names the remedy.",
        epilog=_OF_A_COMMAND,
    )
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.set_defaults(run=_doctor)

    completion = commands.add_parser(
        "completion",
        help="print a script that completes this command in a shell",
        description="Print a script for a shell, after which the Tab key completes commands,"
        " options and files (docs/install.md shows where each shell expects it).",
        epilog=_OF_A_COMMAND,
    )

    completion.add_argument(
        "shell", choices=("bash", "fish", "zsh"), metavar="SHELL", help="bash, fish or zsh"
    )
    completion.set_defaults(run=_completion)

    add_serve_command(commands, _OF_A_COMMAND)
    add_serial_commands(commands, _OF_A_COMMAND)
    add_log_commands(commands, _OF_A_COMMAND)
    add_alicat_commands(commands)

    commands.add_parser(
        "sim",
        help="run simulated instruments (see penstock sim --help)",
        add_help=False,
    )
    return parser


def _demo(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._recording.demo_command import run_demo

    return run_demo(options, interrupts)


def _new(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._recording.new_command import run_new

    return run_new(options, interrupts)


def _note(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._recording.note_command import run_note

    return run_note(options, interrupts)


def _send(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._recording.network_sinks import run_send

    return run_send(options, interrupts)


def _alarm(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._recording.note_command import run_alarm

    return run_alarm(options, interrupts)


def _safe(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._recording.safe_command import run_safe

    return run_safe(options, interrupts)


def _record(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._recording.record_command import run_record

    return run_record(options, interrupts)


def _watch(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._recording.watch_command import run_watch

    return run_watch(options, interrupts)


def _completion(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._grammar_texts import run_completion

    return run_completion(build_parser(), options.shell)


def _doctor(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._doctor.command import run_doctor

    return run_doctor(options, interrupts)


class _Version(argparse.Action):
    """Like argparse's own action, but looks the version up only when the option is given."""

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


# The grammar of ``penstock log``.


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
        "not records. The exit code is 8 if acknowledged records are damaged. The remains of an "
        "unfinished write are named too; opening the log cuts them off.",
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
        help="print the last records of a log, and wait for new ones",
        description="Print the last records of a log, one a line. Bytes that are not "
        "printable UTF-8 are escaped.",
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
        "-f", "--follow", action="store_true", help="wait for new records, until Ctrl-C"
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
    from penstock.cli._log import check_logs

    return check_logs(options, interrupts)


def _salvage(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._log import salvage_log

    return salvage_log(options, interrupts)


def _tail(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._log import tail_log

    return tail_log(options, interrupts)
