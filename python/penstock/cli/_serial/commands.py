"""The grammar of the serial port commands: ports, term, serial serve."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli._interrupts import Interrupts

_LINE_ENDINGS = ("cr", "lf", "crlf", "raw")


def add_serial_commands(commands: Any, epilog: str) -> None:
    """Add the commands to argparse's ``commands``."""
    common = {
        "epilog": epilog,
    }
    ports = commands.add_parser(
        "ports",
        help="list the serial ports",
        description="List the serial ports that have hardware behind them, without opening any.",
        **common,
    )
    ports.add_argument(
        "--watch",
        action="store_true",
        help="keep running and print each port that is plugged in (+) or unplugged (-)",
    )
    ports.add_argument(
        "--json",
        action="store_true",
        help='print JSON; with --watch one line {"event": ..., "port": ...} per event',
    )
    ports.set_defaults(run=_ports)

    term = commands.add_parser(
        "term",
        help="connect a terminal or a pipe to a serial port",
        description="Connect the keyboard and the screen, or a pipe, to a serial port or URL "
        "(socket://, rfc2217://, loop://, spy://). On a terminal, Ctrl-] leaves and Ctrl-T Ctrl-H "
        "lists the other keys. Bytes from a pipe are sent, and the answer is printed.",
        **common,
    )
    term.add_argument("port", metavar="PORT|URL", help="a path such as /dev/ttyUSB0, or a URL")
    _add_settings(term)
    term.add_argument(
        "--eol",
        choices=_LINE_ENDINGS,
        help="what the Enter key, or a line end in a pipe, sends "
        "(default: crlf on a terminal; raw, which changes nothing, from a pipe)",
    )
    term.add_argument("--hex", action="store_true", help="show received bytes in hexadecimal")
    term.add_argument("--echo", action="store_true", help="also show what is typed")
    term.add_argument("--log", metavar="FILE", help="append received bytes to FILE")
    term.add_argument("--quiet", action="store_true", help="print only what the port sends")
    term.add_argument(
        "--linger",
        type=_seconds,
        default=1.0,
        metavar="SECONDS",
        help="after the end of a pipe, exit after this long without input (default: %(default)g)",
    )
    term.add_argument(
        "--reconnect", action="store_true", help="wait for the device when it is unplugged"
    )
    term.set_defaults(run=_term)

    serial = commands.add_parser(
        "serial", help="serve a serial port to the network (penstock serial serve)", **common
    )
    actions = serial.add_subparsers(title="actions", metavar="ACTION", required=True)
    serve = actions.add_parser(
        "serve",
        help="serve a port over RFC 2217",
        description="Serve a serial port to one client at a time over RFC 2217, with its settings "
        "and control lines. The client's URL is rfc2217://HOST:PORT. There is no password and no "
        "encryption: anyone who can reach the TCP port controls the device.",
        **common,
    )
    serve.add_argument("device", metavar="DEVICE", help="a path such as /dev/ttyUSB0, or a URL")
    serve.add_argument(
        "--port",
        type=_tcp_port,
        default=2217,
        metavar="N",
        help="TCP port, 0 for a free one (default: %(default)d)",
    )
    serve.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on; 0.0.0.0 for all interfaces (default: %(default)s)",
    )
    _add_settings(serve)
    serve.set_defaults(run=_serve)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    settings = parser.add_argument_group("port settings")
    settings.add_argument(
        "--baud", type=int, default=115_200, metavar="RATE", help="(default: %(default)d)"
    )
    settings.add_argument("--bits", choices=("5", "6", "7", "8"), default="8")
    settings.add_argument(
        "--parity", choices=("none", "even", "odd", "mark", "space"), default="none"
    )
    settings.add_argument("--stop", choices=("1", "1.5", "2"), default="1")
    settings.add_argument("--flow", choices=("none", "xonxoff", "rtscts"), default="none")
    for line in ("rts", "dtr"):
        settings.add_argument(
            f"--{line}",
            choices=("on", "off"),
            help=f"{line.upper()} when the port is opened (default: left to the driver)",
        )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write a number of seconds from 0 to 86400"
        )
    return value


def _tcp_port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a TCP port; write a number from 0 to 65535"
        )
    return int(text)


def _ports(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._serial.ports import run_ports

    return run_ports(options, interrupts)


def _term(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._serial.term_command import run_term

    return run_term(options, interrupts)


def _serve(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._serial.serve_command import run_serve

    return run_serve(options, interrupts)
