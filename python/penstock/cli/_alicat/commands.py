"""The grammar of the commands for single instruments: penstock alicat."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli._alicat.modbus_families import MODBUS_FAMILIES
from penstock.cli._grammar import CommandParser
from penstock.cli._interrupts import Interrupts

if TYPE_CHECKING:
    from penstock.alicat import Capability

_EPILOG = """\
exit codes:
  0    done
  1    an unexpected error, which is a defect of Penstock
  2    an argument is wrong, or --yes is missing; nothing was sent
  4    no instrument answers, or the port or the instrument refuses
  5    a file could not be read or written
  6    a poll failed, a setpoint was ignored, or settings differ
  129, 130, 143  ended by SIGHUP, Ctrl-C (SIGINT), SIGTERM
  141  the reader of standard output, such as head, has closed it
"""


def add_alicat_commands(commands: Any) -> None:
    """Add the command to argparse's ``commands``."""
    common: dict[str, Any] = {
        "epilog": _EPILOG,
    }
    alicat = commands.add_parser(
        "alicat", help="query and set one Alicat instrument (penstock alicat --help)", **common
    )
    actions = alicat.add_subparsers(
        title="actions", metavar="ACTION", required=True, parser_class=AnyOrderParser
    )

    scan = actions.add_parser(
        "scan",
        help="find instruments",
        description="Search serial ports for instruments, and print those that answer. Nothing is "
        "changed.",
        **common,
    )
    add_search_options(scan)
    scan.add_argument("--json", action="store_true", help="print a JSON list")
    scan.set_defaults(run=_scan)

    info = actions.add_parser("info", help="print what an instrument is", **common)
    read = actions.add_parser("read", help="print one reading", **common)

    watch = actions.add_parser("watch", help="print readings until Ctrl-C", **common)
    watch.add_argument("--rate", type=float, default=1.0, metavar="HZ", help="(default: 1)")
    watch.add_argument("--count", type=int, metavar="N", help="end after N readings")

    set_ = actions.add_parser(
        "set",
        help="set a controller's setpoint",
        description="Set the setpoint and read it back. The instrument is asked for its unit "
        "first; with --in, the setpoint is sent only if the units agree.",
        **common,
    )
    gas = actions.add_parser("gas", help="print or select the gas", **common)
    tare = actions.add_parser(
        "tare",
        help="make the present reading of a sensor its zero point",
        description="Tare a sensor. An instrument cannot tell whether gas flows or its line is "
        "vented: --yes confirms that nothing flows, or that the line is vented.",
        **common,
    )
    ramp = actions.add_parser(
        "ramp", help="print or set how fast the setpoint may change", **common
    )

    batch = actions.add_parser(
        "batch",
        help="print or set the volume that flows until the valve closes",
        **common,
    )
    registers = actions.add_parser(
        "registers",
        help="read and write numbered registers",
        description="Print registers, and write those that are named with a value. A wrong value "
        "can make an instrument useless: --yes confirms that you mean it.",
        **common,
    )
    config = actions.add_parser(
        "config", help="save, compare and restore all settings", **common
    ).add_subparsers(title="actions", metavar="ACTION", required=True)
    save = config.add_parser("save", help="write the settings to a JSON file", **common)
    restore = config.add_parser(
        "restore", help="write the settings in a file to the instrument", **common
    )
    diff = config.add_parser("diff", help="compare the settings with a file", **common)

    for action in (
        *(info, read, watch, set_, gas, tare, ramp),
        *(batch, registers, save, restore, diff),
    ):
        action.add_argument(
            "port", metavar="PORT", help="a path such as /dev/ttyUSB0, a URL, or HOST:PORT"
        )
    set_.add_argument("value", type=float, metavar="VALUE")
    set_.add_argument("--in", dest="unit_of_value", metavar="UNIT", help="the unit of VALUE")
    gas.add_argument("gas", nargs="?", metavar="GAS", help="a name such as N2, or a mix's number")
    gas.add_argument("--list", action="store_true", help="print the gases that it knows")
    gas.add_argument("--save", action="store_true", help="keep it after a power cycle")
    tare.add_argument("sensor", choices=("flow", "gauge", "absolute"))
    tare.add_argument("--yes", action="store_true", help="nothing flows, or the line is vented")
    ramp.add_argument("rate", nargs="?", type=float, metavar="RATE", help="0 removes the limit")
    ramp.add_argument("--per", choices=("ms", "s", "min", "h", "day"), help="the time of RATE")
    batch.add_argument("volume", nargs="?", type=float, metavar="VOLUME", help="0 ends batching")
    batch.add_argument(
        "--totalizer", type=int, choices=(1, 2), default=1, help="(default: %(default)d)"
    )
    registers.add_argument("registers", nargs="+", metavar="NUMBER[=VALUE]")
    registers.add_argument("--yes", action="store_true", help="write the values")
    for action in (save, restore, diff):
        action.add_argument("file", metavar="FILE")
    save.add_argument("--overwrite", action="store_true", help="replace FILE")
    restore.add_argument("--yes", action="store_true", help="overwrite the settings")
    bench = add_bench_actions(actions, common)
    for action, run in (
        *((action, action.get_default("run")) for action in bench),
        (batch, _batch),
        (registers, _registers),
        (save, _save_config),
        (restore, _restore_config),
        (diff, _diff_config),
        (info, _info),
        (read, _read),
        (watch, _watch),
        (set_, _set),
        (gas, _gas),
        (tare, _tare),
        (ramp, _ramp),
    ):
        action.add_argument(
            "--unit", metavar="ID", help="unit id (default: A), or a Modbus number (default: 1)"
        )
        action.add_argument(
            "--baud", type=int, default=19_200, metavar="RATE", help="(default: %(default)d)"
        )
        action.add_argument(
            "--timeout",
            type=float,
            default=0.5,
            metavar="SECONDS",
            help="time limit for one answer (default: %(default)g)",
        )
        action.add_argument(
            "--assume",
            type=_hardware,
            default="",
            metavar="NAMES",
            help="optional hardware that the instrument has but does not report, such as "
            "bidirectional or tareable-absolute-pressure, separated by commas",
        )
        action.add_argument("--json", action="store_true", help="print JSON")
        modbus = action.add_argument_group("instruments that use Modbus")
        modbus.add_argument("--modbus", choices=("rtu", "tcp"), help="on a line, or over TCP")
        modbus.add_argument(
            "--family",
            choices=MODBUS_FAMILIES,
            default=MODBUS_FAMILIES[0],
            metavar="NAME",
            help=f"{', '.join(MODBUS_FAMILIES)} (default: {MODBUS_FAMILIES[0]})",
        )
        modbus.add_argument(
            "--units",
            default="",
            metavar="LIST",
            help="the units that it is set to, such as mass_flow=SCCM,mass_flow_setpt=SCCM",
        )
        modbus.add_argument(
            "--decimals", type=int, metavar="N", help="of the flow of a BASIS instrument"
        )
        action.set_defaults(run=run)


def _baud_rates(text: str) -> list[int]:
    try:
        rates = [int(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates or min(rates) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of baud rates; write numbers separated by commas, such as "
            "19200,115200"
        )
    return rates


def _hardware(text: str) -> Capability:
    from penstock.alicat import Capability

    found = Capability.NONE
    for name in filter(None, text.split(",")):
        try:
            found |= Capability[name.strip().upper().replace("-", "_")]
        except KeyError:
            known = ", ".join(str(one.name).lower().replace("_", "-") for one in Capability)
            raise argparse.ArgumentTypeError(
                f"{name.strip()!r} is not known; write one or more of {known}"
            ) from None
    return found


def add_search_options(command: argparse.ArgumentParser) -> None:
    """Add what tells where to look for instruments, for :mod:`penstock.cli._alicat.scan`."""
    command.add_argument("ports", nargs="*", metavar="PORT", help="(default: all of this machine)")
    command.add_argument(
        "--units",
        metavar="IDS",
        help="unit ids to search for, such as A-F or A,C (default: A); Modbus numbers such as 1-20 "
        "(default: 1)",
    )
    command.add_argument(
        "--bauds",
        default="19200,115200",
        type=_baud_rates,
        metavar="RATES",
        help="baud rates to try, separated by commas (default: 19200,115200)",
    )
    command.add_argument("--timeout", type=float, default=0.2, metavar="SECONDS")
    command.add_argument("--modbus", choices=("rtu", "tcp"), help="ask by Modbus")


def _scan(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.scan import run_scan

    return run_scan(options, interrupts)


def _info(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.actions import print_info
    from penstock.cli._alicat.running import run_action

    return run_action(print_info, options, interrupts)


def _read(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.actions import read_once
    from penstock.cli._alicat.running import run_action

    return run_action(read_once, options, interrupts)


def _watch(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.actions import watch_readings
    from penstock.cli._alicat.running import run_action

    return run_action(watch_readings, options, interrupts)


def _set(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.actions import set_setpoint
    from penstock.cli._alicat.running import run_action

    return run_action(set_setpoint, options, interrupts)


def _gas(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.actions import choose_gas
    from penstock.cli._alicat.running import run_action

    return run_action(choose_gas, options, interrupts)


def _tare(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.actions import tare_sensor
    from penstock.cli._alicat.running import run_action

    return run_action(tare_sensor, options, interrupts)


def _ramp(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.actions import set_ramp
    from penstock.cli._alicat.running import run_action

    return run_action(set_ramp, options, interrupts)


def _batch(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.maintenance import run_batch
    from penstock.cli._alicat.running import run_action

    return run_action(run_batch, options, interrupts)


def _registers(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.maintenance import use_registers
    from penstock.cli._alicat.running import run_action

    return run_action(use_registers, options, interrupts)


def _save_config(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.maintenance import save_config
    from penstock.cli._alicat.running import run_action

    return run_action(save_config, options, interrupts)


def _restore_config(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.maintenance import restore_config
    from penstock.cli._alicat.running import run_action

    return run_action(restore_config, options, interrupts)


def _diff_config(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.maintenance import diff_config
    from penstock.cli._alicat.running import run_action

    return run_action(diff_config, options, interrupts)


# The grammar of ``penstock alicat``'s actions at the bench: valves, display, units, mixes.


def add_bench_actions(actions: Any, common: dict[str, Any]) -> list[argparse.ArgumentParser]:
    """Add the actions. The caller adds the options that all actions have."""
    added: list[argparse.ArgumentParser] = []

    def add(name: str, text: str, *, yes: str | None = None) -> argparse.ArgumentParser:
        action: argparse.ArgumentParser = actions.add_parser(
            name, help=text, description=f"{text[:1].upper()}{text[1:]}.", **common
        )
        action.add_argument(
            "port", metavar="PORT", help="a path such as /dev/ttyUSB0, a URL, or HOST:PORT"
        )
        if yes is not None:
            action.add_argument("--yes", action="store_true", help=yes)
        action.set_defaults(run=_bench, bench=name)
        added.append(action)
        return action

    add("lock", "lock the keys of the front panel")
    add("unlock", "unlock the keys of the front panel")
    hold = add("hold", "keep the valves where they are", yes="close them, with --closed")
    hold.add_argument("--closed", action="store_true", help="close the valves instead")
    add("cancel", "let the valves follow the setpoint again")
    add("exhaust", "open the exhaust valve until `cancel`", yes="open it")
    totalizer = add("totalizer", "print a totalizer's settings, or reset it", yes="reset it")
    totalizer.add_argument("reset", nargs="?", choices=("reset", "reset-peak"))
    totalizer.add_argument("--totalizer", type=int, choices=(1, 2), default=1)
    mix = add("mix", "create or delete a gas mix", yes="delete the mix, with --delete")
    mix.add_argument("number", type=int, metavar="NUMBER", help="236 to 255")
    mix.add_argument("name", nargs="?", metavar="NAME", help="at most six letters")
    mix.add_argument("gases", nargs="*", metavar="GAS=PERCENT", help="such as Ar=75 CO2=25")
    mix.add_argument("--delete", action="store_true", help="delete the mix with this number")
    pid = add("pid", "print or set the gains of the control loop", yes="set them")
    pid.add_argument("--algorithm", choices=("pd-pdf", "pd2i"))
    for gain in ("proportional", "derivative", "integral"):
        pid.add_argument(f"--{gain}", type=int, metavar="N")
    unit = add("unit", "print the unit of a quantity, or choose another")
    unit.add_argument("quantity", metavar="QUANTITY", help="such as mass_flow or abs_press")
    unit.add_argument("wanted", nargs="?", metavar="UNIT", help="such as SLPM")
    unit.add_argument("--group", action="store_true", help="for all quantities of its group")
    baud = add("baud", "change the baud rate of the instrument", yes="change it")
    baud.add_argument("rate", type=int, metavar="RATE")
    rename = add("rename", "give the instrument another unit id", yes="give it")
    rename.add_argument("letter", metavar="ID")
    source = add("source", "print or choose where the setpoint comes from")
    source.add_argument("mode", nargs="?", metavar="S|A|U", help="serial, analogue, or unsaved")
    raw = add("raw", "send a raw command and print the lines of its answer")
    raw.add_argument("command", metavar="COMMAND", help="without the unit id, such as '??M*'")
    do = add("do", "execute a command of the catalogue; `list` names them", yes="confirm it")
    do.add_argument("command", metavar="NAME", help="such as zero-band, or list")
    do.add_argument("fields", nargs="*", metavar="FIELD=VALUE", help="its arguments")
    return added


def _bench(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.bench_actions import run_bench
    from penstock.cli._alicat.running import run_action

    return run_action(run_bench, options, interrupts)


# A parser that takes options between positional arguments.


class AnyOrderParser(CommandParser):
    """Takes ``gas PORT --unit B Ar`` for ``gas PORT Ar --unit B``.

    The argparse of CPython 3.11 takes an optional positional argument for absent as soon as an
    option comes before it, and refuses it afterwards as unknown. Its ``parse_intermixed_args`` does
    not, and is not part of what subparsers call.
    """

    _parsing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self._parsing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._parsing = True
        try:
            options, unknown = self.parse_known_intermixed_args(args, namespace)
            if unknown:
                self.error(f"unrecognized arguments: {' '.join(unknown)}")
            return options, unknown
        finally:
            self._parsing = False
