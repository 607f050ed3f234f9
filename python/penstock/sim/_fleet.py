"""A fleet of simulated instruments, and its faults, from TOML files.

Every error in a file names the key and what to write there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock.sim._line.bus import Bus, Station
from penstock.sim._line.faults import BusFaults
from penstock.sim._line.framing import Framing, LineFraming, ModbusRtuFraming, ModbusTcpFraming
from penstock.sim._personality.ascii_unit import AsciiUnit
from penstock.sim._personality.basis_unit import BasisController, BasisMeter
from penstock.sim._personality.families import (
    CoriolisController,
    CoriolisMeter,
    LiquidController,
    LiquidMeter,
    MassFlowController,
    MassFlowMeter,
    PressureController,
    PressureMeter,
)
from penstock.sim._personality.modbus_unit import ModbusUnit
from penstock.sim._physics.code_tables import GASES
from penstock.sim._physics.firmware import FIRMWARES


class TomlError(ValueError):
    """A file that cannot be used: one sentence with the key, the value and the remedy."""


def read_toml(path: str | Path) -> TomlTable:
    """The top table of a file.

    Raises:
        TomlError: the file cannot be read or is not TOML.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TomlError(f"{path}: {reason}; name a TOML file that can be read") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(f"{path}: not TOML: {error}; correct that line") from error
    return TomlTable(values, str(path))


class TomlTable:
    """One table. Every getter removes its key; ``finish`` rejects the keys that are left."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.where = where
        self._values = dict(values)
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def error(self, key: str, message: str) -> TomlError:
        """The error that says ``message`` of a key."""
        return TomlError(f"{self.where}: {key}: {message}")

    def text(self, key: str, default: str | None = None) -> str:
        """A string; required without a default."""
        value = self._take(key, default, "a string in quotes")
        if not isinstance(value, str):
            raise self.error(key, f"{value!r} is not a string; write it in quotes")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number; required without a default."""
        value = self._take(key, default, "a number")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"{value!r} is not a number; write one without quotes")
        return float(value)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; required without a default."""
        value = self._take(key, default, "a whole number")
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"{value!r} is not a whole number; write one without quotes")
        return value

    def any(self, key: str) -> Any:
        """A value of any type; required."""
        return self._take(key, None, "a value")

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of ``choices``."""
        value = self.text(key, default)
        if value not in choices:
            near = get_close_matches(value, choices, 1)
            remedy = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(choices)}"
            raise self.error(key, f"{value!r} is unknown; {remedy}")
        return value

    def table(self, key: str) -> TomlTable:
        """A table; empty if it is not there."""
        value = self._take(key, {}, "a table")
        if not isinstance(value, Mapping):
            found = "an array" if isinstance(value, list) else repr(value)
            raise self.error(key, f"{found} is not a table; write [{key}] above its keys")
        return TomlTable(value, f"{self.where}: [{key}]")

    def tables(self, key: str) -> list[TomlTable]:
        """An array of tables; at least one."""
        values = self._take(key, [], "an array of tables")
        if not isinstance(values, list) or not all(isinstance(v, Mapping) for v in values):
            raise self.error(key, f"is not an array of tables; write [[{key}]] above each")
        if not values:
            raise self.error(key, f"there is none; write [[{key}]] and its keys")
        return [
            TomlTable(value, f"{self.where}: {key} {number}")
            for number, value in enumerate(values, start=1)
        ]

    def knows(self, *keys: str) -> None:
        """Name keys that are possible here, for the remedy in an error."""
        self._known += [key for key in keys if key not in self._known]

    def remaining(self) -> list[str]:
        """The keys that were not taken out."""
        return list(self._values)

    def finish(self) -> None:
        """Raise TomlError for a key that was not taken out."""
        for key in self._values:
            near = get_close_matches(key, self._known, 1)
            remedy = f"did you mean {near[0]}?" if near else f"write {', '.join(self._known)}"
            raise self.error(key, f"is not a key that is known here; {remedy}")

    def _take(self, key: str, default: object, wanted: str) -> Any:
        self._known.append(key)
        value = self._values.pop(key, default)
        if value is None:
            raise self.error(key, f"is missing; write {key} = {wanted}")
        return value


T = TypeVar("T")

_FLOW: Final = {
    "mass-flow-controller": MassFlowController,
    "mass-flow-meter": MassFlowMeter,
    "liquid-controller": LiquidController,
    "liquid-meter": LiquidMeter,
    "coda-controller": CoriolisController,
    "coda-meter": CoriolisMeter,
}
_PRESSURE: Final = {
    "pressure-controller": PressureController,
    "pressure-meter": PressureMeter,
}
_BASIS: Final = {"basis-controller": BasisController, "basis-meter": BasisMeter}
#: The families by the names that a fleet file uses.
FAMILIES: Final[tuple[str, ...]] = (*_FLOW, *_PRESSURE, *_BASIS)
MODBUS_TCP: Final = "modbus-tcp"
#: The protocols of a bus, by the names that a fleet file uses.
PROTOCOLS: Final[Mapping[str, Callable[[], Framing]]] = {
    "ascii": LineFraming,
    "modbus-rtu": ModbusRtuFraming,
    MODBUS_TCP: ModbusTcpFraming,
}
_GAS_NUMBERS: Final = {gas.short.casefold(): gas.number for gas in GASES}


@dataclass(frozen=True, slots=True)
class NamedBus:
    """A bus with the name that its links and faults use."""

    name: str
    bus: Bus
    protocol: str = "ascii"


def make_bus(
    units: Sequence[AsciiUnit],
    *,
    protocol: str = "ascii",
    numbers: Sequence[int] = (),
    baudrate: int = 19200,
    turnaround: float = 0.002,
    faults: BusFaults | None = None,
) -> Bus:
    """A bus whose units speak one of :data:`PROTOCOLS`.

    ``numbers`` are the units' Modbus numbers, by default from 1 up. A network has no baud rate, so
    ``baudrate`` says nothing with Modbus TCP.

    Raises:
        ValueError: a number or another value is out of range, or an address is there twice.
    """
    stations: Sequence[Station] = units
    if protocol != "ascii":
        chosen = numbers or range(1, len(units) + 1)
        stations = [ModbusUnit(unit, number) for unit, number in zip(units, chosen, strict=True)]
    return Bus(
        stations,
        baudrate=None if protocol == MODBUS_TCP else baudrate,
        turnaround=turnaround,
        faults=faults,
        framing=PROTOCOLS[protocol](),
    )


class FleetFaults:
    """The faults of every bus of a fleet."""

    def __init__(self, everywhere: Mapping[str, Any], by_bus: Mapping[str, Mapping[str, Any]],
                 seed: int) -> None:  # fmt: skip
        self._everywhere = everywhere
        self._by_bus = by_bus
        self._seed = seed

    @property
    def named(self) -> tuple[str, ...]:
        """The buses that have faults of their own."""
        return tuple(self._by_bus)

    def of(self, name: str, position: int) -> BusFaults:
        """The faults of one bus. Every bus has its own seed, derived from the plan's."""
        return BusFaults(
            **{
                **self._everywhere,
                "seed": self._seed + 1000 * position,
                **self._by_bus.get(name, {}),
            }
        )


def read_fleet(path: str | Path, plan: FleetFaults | None = None) -> list[NamedBus]:
    """The buses of a fleet file, with the faults of ``plan``.

    Raises:
        TomlError: the file cannot be used; the message names the key and the remedy.
    """
    top = read_toml(path)
    seed = top.whole("seed", 0)
    buses: list[NamedBus] = []
    for position, table in enumerate(top.tables("bus")):
        name = table.text("name", f"bus{position + 1}")
        if not name or "/" in name or name.startswith(".") or not name.isprintable():
            raise table.error("name", f"{name!r} cannot be a file name; write letters and digits")
        if any(name == other.name for other in buses):
            raise table.error("name", f"{name!r} is there twice; give every bus its own")
        baudrate = table.whole("baudrate", 19200)
        turnaround = table.number("turnaround", 0.002)
        protocol = table.choice("protocol", tuple(PROTOCOLS), "ascii")
        tables = table.tables("unit")
        numbers = (
            []
            if protocol == "ascii"
            else [unit.whole("number", index) for index, unit in enumerate(tables, start=1)]
        )
        units = [
            _unit(unit, seed=seed + 1000 * position, serial=521641 + 100 * position + index)
            for index, unit in enumerate(tables)
        ]
        faults = None if plan is None else plan.of(name, position)
        build = partial(
            make_bus, units, protocol=protocol, numbers=numbers, baudrate=baudrate,
            turnaround=turnaround, faults=faults,
        )  # fmt: skip
        buses.append(NamedBus(name, _built(table, "unit", build), protocol))
        table.finish()
    top.finish()
    if plan is not None:
        unknown = set(plan.named) - {bus.name for bus in buses}
        if unknown:
            raise top.error(
                "bus",
                f"the fault plan names {', '.join(sorted(unknown))}, and the buses are"
                f" {', '.join(bus.name for bus in buses)}; make the names agree",
            )
    return buses


def read_fault_plan(path: str | Path) -> FleetFaults:
    """A fault plan: ``[faults]`` for every bus, ``[bus.NAME]`` for one.

    Raises:
        TomlError: the file cannot be used; the message names the key and the remedy.
    """
    top = read_toml(path)
    seed = top.whole("seed", 0)
    everywhere = _faults(top.table("faults"))
    buses = top.table("bus")
    by_bus = {name: _faults(buses.table(name)) for name in buses.remaining()}
    top.finish()
    return FleetFaults(everywhere, by_bus, seed)


def _faults(table: TomlTable) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(BusFaults):
        if field.name not in table:
            table.knows(field.name)
            continue
        found[field.name] = _fault_value(table, field.name)
        _built(table, field.name, partial(BusFaults, **{field.name: found[field.name]}))
    table.finish()
    return found


def _fault_value(table: TomlTable, key: str) -> Any:
    if key == "seed":
        return table.whole(key)
    if key.endswith("_rate") or key in ("late_by", "reboot_time"):
        return table.number(key)
    value = table.any(key)
    if key == "unplug":
        pairs = isinstance(value, list) and all(
            isinstance(pair, list) and len(pair) == 2 and all(map(_is_number, pair))
            for pair in value
        )
        if not pairs:
            raise table.error(key, f"{value!r} is not a list of pairs; write [[begin, seconds]]")
        return [(float(begin), float(length)) for begin, length in value]
    if key == "streaming":
        if not isinstance(value, list) or not all(isinstance(unit, str) for unit in value):
            raise table.error(key, f'{value!r} is not a list of unit ids; write ["A"]')
        return value
    if key in ("late", "foreign_id"):
        wanted, example = (float, "{3 = 0.5}") if key == "late" else (str, '{3 = "B"}')
        if not isinstance(value, dict) or not all(
            number.isdigit() and (_is_number(v) if wanted is float else isinstance(v, str))
            for number, v in value.items()
        ):
            raise table.error(key, f"{value!r} is not a table by reply number; write {example}")
        return {int(number): wanted(v) for number, v in value.items()}
    if not isinstance(value, list) or not all(_is_whole(number) for number in value):
        raise table.error(key, f"{value!r} is not a list of reply numbers; write [1, 5]")
    return frozenset(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _unit(table: TomlTable, *, seed: int, serial: int) -> AsciiUnit:
    family = table.choice("family", FAMILIES, "mass-flow-controller")
    arguments: dict[str, Any] = {
        "unit_id": table.text("id"),
        "full_scale": table.number("full_scale"),
        "tau": table.number("tau", 0.3),
        "noise": table.number("noise", 0.0),
        "seed": table.whole("seed", seed),
        "serial_number": table.text("serial", f"B{serial}" if family in _BASIS else str(serial)),
    }
    build: Callable[..., AsciiUnit]
    if family in _PRESSURE:
        build = _PRESSURE[family]
        arguments["reference"] = table.choice("reference", ("A", "G", "D"), "A")
        arguments["pressure_unit"] = table.text("unit", "PSI")
    else:
        build = _FLOW[family] if family in _FLOW else _BASIS[family]
        table.knows("unit", "gas", "temperature")
        if "unit" in table:
            arguments["flow_unit"] = table.text("unit")
        if "gas" in table:
            arguments["gas"] = _gas(table)
        if "temperature" in table:
            arguments["temperature"] = table.number("temperature")
    if family not in _BASIS:
        table.knows("model", "firmware", "second_sensor")
        if "second_sensor" in table:
            arguments["second_sensor"] = table.choice("second_sensor", ("A", "G", "D"))
        if "model" in table:
            arguments["model"] = table.text("model")
        if "firmware" in table:
            names = [name for name in FIRMWARES if name != "basis"]
            arguments["firmware"] = FIRMWARES[table.choice("firmware", names)]
    if family in _FLOW:
        table.knows("pressure")
        if "pressure" in table:
            arguments["pressure"] = table.number("pressure")
    supplied = table.number("supply", 0.0) if family.endswith("-meter") else 0.0
    table.finish()
    unit = _built(table, "id" if len(arguments["unit_id"]) != 1 else "full_scale",
                  partial(build, **arguments))  # fmt: skip
    unit.instrument.loop.requested = supplied
    return unit


def _gas(table: TomlTable) -> int:
    name = table.text("gas")
    number = _GAS_NUMBERS.get(name.casefold())
    if number is None:
        raise table.error("gas", f"{name!r} is not a gas; write a short name such as N2, Ar or CO2")
    return number


def _built(table: TomlTable, key: str, build: Callable[[], T]) -> T:
    """What ``build`` makes; its ValueError becomes one of the file."""
    try:
        return build()
    except ValueError as error:
        raise table.error(key, f"{error}; correct it") from error
