"""The grammar of ``penstock alicat``'s actions at the bench: valves, display, units, mixes."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli._interrupts import Interrupts

__all__ = ["add_bench_actions"]


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
    mix = add("mix", "create a gas mix, or forget one", yes="forget it, with --delete")
    mix.add_argument("number", type=int, metavar="NUMBER", help="236 to 255")
    mix.add_argument("name", nargs="?", metavar="NAME", help="at most six letters")
    mix.add_argument("gases", nargs="*", metavar="GAS=PERCENT", help="such as Ar=75 CO2=25")
    mix.add_argument("--delete", action="store_true", help="forget the mix of this number")
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
    raw = add("raw", "send a command as it is, and print the lines of its answer")
    raw.add_argument("command", metavar="COMMAND", help="without the unit id, such as '??M*'")
    do = add("do", "execute a command of the catalogue; `list` names them", yes="confirm it")
    do.add_argument("command", metavar="NAME", help="such as zero-band, or list")
    do.add_argument("fields", nargs="*", metavar="FIELD=VALUE", help="its arguments")
    return added


def _bench(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._alicat.bench_actions import run_bench
    from penstock.cli._alicat.running import run_action

    return run_action(run_bench, options, interrupts)
