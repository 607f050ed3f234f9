"""How a dashboard is to be served, as plain data, and the options that say so."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._limits import LimitPlan

if TYPE_CHECKING:
    from penstock.cli._recording.config import RunConfig

DEFAULT_PORT = 8736
_HOST = "127.0.0.1"
_SILENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class ChartLayout:
    """A ``[[dash.chart]]``: the curves of its two axes, each a device and a field.

    ``log`` names the sides whose axis is logarithmic.
    """

    title: str = ""
    left: tuple[tuple[str, str], ...] = ()
    right: tuple[tuple[str, str], ...] = ()
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitOption:
    """A ``--limit``: the range without an alarm, None where it has no end.

    ``name`` is that of a device, or DEVICE.FIELD. ``hysteresis`` None is that of the page.
    """

    name: str
    low: float | None
    high: float | None
    hysteresis: float | None = None

    def readings(self) -> list[tuple[str, str | None]]:
        """The device and the field that ``name`` may stand for, the likelier one first.

        The name of a device may have dots, that of a field has none.
        """
        device, dot, field = self.name.rpartition(".")
        return [(self.name, None), (device, field)] if dot else [(self.name, None)]


@dataclass(frozen=True, slots=True)
class DashPlan:
    """Where the page is served, and what it may do.

    ``names`` are further host names under which the page is opened. ``charts`` and ``recorded``,
    the limits that the recorder judges, are those of a ``run.toml``. ``password`` is that of those
    who may look; None lets everybody.
    """

    host: str = _HOST
    port: int = DEFAULT_PORT
    control: bool = False
    silence: float = _SILENCE_S
    limits: tuple[LimitOption, ...] = ()
    names: tuple[str, ...] = ()
    charts: tuple[ChartLayout, ...] = ()
    recorded: Mapping[str, tuple[LimitPlan, ...]] = field(default_factory=dict)
    password: str | None = None


def add_serving_options(parser: argparse.ArgumentParser, *, beside: bool) -> None:
    """Add the options of a dashboard; ``beside`` a recording, one of them switches it on."""
    group: Any = parser
    if beside:
        group = parser.add_argument_group("dashboard, a live page for browsers")
        group.add_argument(
            "--dash",
            nargs="?",
            type=_port,
            const=DEFAULT_PORT,
            metavar="PORT",
            help=f"serve the page on PORT (default: {DEFAULT_PORT}; 0 picks a free one)",
        )
    else:
        group.add_argument(
            "--port",
            type=_port,
            default=DEFAULT_PORT,
            metavar="PORT",
            help="port to serve the page on; 0 picks a free one (default: %(default)s)",
        )
    group.add_argument(
        "--host",
        metavar="ADDRESS",
        help=f"address to serve the page on (default: {_HOST}, this machine only)",
    )
    group.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name of this machine that browsers use; may be repeated",
    )
    group.add_argument(
        "--password-file",
        metavar="FILE",
        help="require the password in the first line of FILE",
    )
    group.add_argument(
        "--control",
        action="store_true",
        help="let browsers with the token printed here change setpoints and gases, and "
        "acknowledge alarms",
    )
    group.add_argument(
        "--limit",
        action="append",
        type=_limit,
        default=[],
        metavar="DEVICE[.FIELD]=LOW:HIGH[:HYSTERESIS]",
        help="alarm while the shown field, or FIELD, is outside this range; one end may be empty; "
        "the alarm ends when the value is inside by HYSTERESIS; may be repeated",
    )
    group.add_argument(
        "--silence",
        type=_silence,
        metavar="SECONDS",
        help=f"alarm when a device has no sample for this time (default: {_SILENCE_S:g})",
    )


def with_layout(plan: DashPlan | None, config: RunConfig) -> DashPlan | None:
    """The same dashboard with the charts and limits of a ``run.toml``."""
    if plan is None:
        return None
    recorded = {device.name: device.limits for device in config.devices if device.limits}
    return replace(plan, charts=config.charts, recorded=recorded)


def dash_plan(options: argparse.Namespace) -> DashPlan | None:
    """The dashboard that ``options`` ask for; None if they ask for none.

    Raises:
        CommandError: an option needs ``--dash``.
    """
    port = options.dash if hasattr(options, "dash") else options.port
    if port is None:
        given = {
            "--host": options.host,
            "--allow-host": options.allow_host,
            "--password-file": options.password_file,
            "--control": options.control,
            "--limit": options.limit,
            "--silence": options.silence,
        }
        for name, value in given.items():
            if value:
                raise CommandError(f"{name} is for the dashboard; add --dash", ExitCode.USAGE)
        return None
    return DashPlan(
        host=options.host or _HOST,
        port=port,
        control=options.control,
        silence=options.silence or _SILENCE_S,
        limits=tuple(options.limit),
        names=tuple(options.allow_host),
        password=_password(options.password_file),
    )


def _password(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            password = file.readline().rstrip("\r\n")
    except OSError as error:
        raise CommandError(
            f"the password file {path} cannot be read: {error.strerror}; check its path and "
            "permissions",
            ExitCode.CONFIG,
        ) from error
    except UnicodeDecodeError as error:
        raise CommandError(
            f"the password file {path} is not UTF-8 text; save it as such", ExitCode.CONFIG
        ) from error
    if not password:
        raise CommandError(
            f"the first line of the password file {path} is empty; write the password there",
            ExitCode.CONFIG,
        )
    return password


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 65536):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a port; write a number from 0 to 65535, and files before the option"
        )
    return int(text)


def _silence(text: str) -> float:
    seconds = _number(text)
    if seconds is None or not 0.1 <= seconds <= 1e6:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time in seconds; write a number from 0.1 to 1000000"
        )
    return seconds


def _limit(text: str) -> LimitOption:
    name, _, rest = text.rpartition("=")
    parts = rest.split(":")
    numbers = [_number(part) if part else None for part in parts]
    bad = any(part and number is None for part, number in zip(parts, numbers, strict=True))
    if not name or bad or len(parts) not in (2, 3) or numbers[:2] == [None, None]:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a limit; write DEVICE=LOW:HIGH, such as argon=10:250, argon=:250, or "
            "argon.Abs_Press=:30:0.5 with a field and a hysteresis"
        )
    low, high = numbers[:2]
    hysteresis = numbers[2] if len(parts) == 3 else None
    if low is not None and high is not None and low >= high:
        raise argparse.ArgumentTypeError(
            f"{text!r} has its ends in the wrong order; write the lower one first"
        )
    if hysteresis is not None and hysteresis < 0:
        raise argparse.ArgumentTypeError(f"{text!r} has a negative hysteresis; write 0 or more")
    if None not in (low, high, hysteresis) and 2 * hysteresis > high - low:  # type: ignore[operator]
        raise argparse.ArgumentTypeError(
            f"{text!r} leaves no value that ends an alarm; make its hysteresis smaller"
        )
    return LimitOption(name, low, high, hysteresis)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
