"""The register maps of the instruments.

The numbers are those of the maker's manual, counted from 1; a request carries the number minus 1.
Other manuals of the maker count from 0, or print other numbers for the same quantity. So a map
names its source, and :attr:`RegisterMap.counted_from` is its first number.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final

from penstock.alicat._instrument.reading import StatusCode
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Gas, Statistic

__all__ = [
    "CODA_METER_REGISTERS",
    "FAMILIES",
    "MASS_FLOW_CONTROLLER_REGISTERS",
    "MASS_FLOW_METER_REGISTERS",
    "Encoding",
    "RegisterMap",
    "SpecialCommand",
    "as_float",
    "basis_registers",
    "from_float",
    "liquid_registers",
    "pressure_registers",
    "registers_of_family",
]


#: "Operating Manual for Standard Flow and Pressure Devices" (M, MC, P, PC, L, LC), January 2023,
#: chapter "Modbus RTU".
_MANUAL = "the maker's operating manual for standard devices of January 2023; not captured"


class SpecialCommand(IntEnum):
    """What is written to the command register, with an argument in the register behind it."""

    CHANGE_GAS = 1
    CREATE_MIX = 2
    """Keeps the gases in the mix registers under this number, which is then the result."""
    DELETE_MIX = 3
    TARE = 4
    """0 the gauge pressure, 1 the absolute pressure, 2 the flow."""
    RESET_TOTALIZER = 5
    VALVE = 6
    """0 follows the setpoint, 1 holds the valve closed, 2 holds it where it is, 3 exhausts."""
    DISPLAY_LOCK = 7
    SET_P = 8
    SET_D = 9
    SET_I = 10
    CONTROL_VARIABLE = 11
    """0 mass flow, 1 volumetric flow, 2 differential, 3 absolute, 4 gauge pressure."""
    SAVE_SETPOINT = 12
    """0 keeps the present setpoint for the next power-up."""
    ALGORITHM = 13
    """1 PD, 2 PDDI."""
    READ_GAIN = 14
    """0 P, 1 D, 2 I."""
    CHANGE_NUMBER = 32767
    """The new Modbus number, 1 to 247."""


class Encoding(Enum):
    """The encoding of a quantity in registers."""

    FLOAT = "float"
    """Two registers, single precision, the high half first."""
    INTEGER = "integer"
    """One register, signed."""
    LONG = "long"
    """Two registers, signed, the high half first."""

    @property
    def count(self) -> int:
        """How many registers it takes."""
        return 1 if self is Encoding.INTEGER else 2

    def decode(self, registers: tuple[int, ...]) -> float:
        """The number in these registers."""
        if self is Encoding.FLOAT:
            return as_float(registers)
        bits = 16 * len(registers)
        whole = 0
        for register in registers:
            whole = whole << 16 | register
        return float(whole - (1 << bits) if whole >> (bits - 1) else whole)


#: The result in the argument register after a command.
RESULTS: Mapping[int, str] = MappingProxyType(
    {
        0: "it was executed",
        32769: "the instrument does not know this command",
        32770: "the instrument does not take this argument",
        32771: "the instrument does not have this feature",
        32772: "there is no mix of this number",
        32773: "a gas of the mix does not exist",
        32774: "the percentages of the mix are invalid",
    }
)

#: The bits of the status registers, from the lowest. A measurement that was aborted has no code.
_STATUS_BITS: tuple[StatusCode | str, ...] = (
    StatusCode.TOV,
    StatusCode.TOV,
    StatusCode.VOV,
    StatusCode.VOV,
    StatusCode.MOV,
    StatusCode.MOV,
    StatusCode.POV,
    StatusCode.OVR,
    StatusCode.HLD,
    StatusCode.ADC,
    StatusCode.EXH,
    StatusCode.OPL,
    StatusCode.TMF,
    "ABORTED",
)


_OF_METERS = frozenset(
    {
        SpecialCommand.TARE,
        SpecialCommand.RESET_TOTALIZER,
        SpecialCommand.DISPLAY_LOCK,
        SpecialCommand.CHANGE_NUMBER,
    }
)
_OF_GAS = frozenset(
    {SpecialCommand.CHANGE_GAS, SpecialCommand.CREATE_MIX, SpecialCommand.DELETE_MIX}
)
_OF_CONTROLLERS = frozenset(SpecialCommand) - _OF_METERS - _OF_GAS
#: Of a BASIS instrument, from the lowest bit.
_BASIS_BITS: tuple[StatusCode | str, ...] = (
    StatusCode.MOV,
    StatusCode.TOV,
    StatusCode.OVR,
    StatusCode.HLD,
    "VTM",
)


@dataclass(frozen=True, slots=True)
class RegisterMap:
    """The registers of a family of instruments.

    Args:
        provenance: Where the numbers are from.
        quantities: The first register of each measured quantity.
        gas: The register of the gas number, ``None`` where there is none.
        status: The first register of the status bits.
        command: The command register; its argument is in the next one. ``None`` where there is
            none.
        setpoint: The first of the two registers of the setpoint, ``None`` on a meter.
        mix: The first of the registers of a mix: number and hundredths of a percent of each gas.
        counted_from: The number of the register with the wire address 0.
        commands: The special commands that are documented for these instruments.
        setpoint_statistic: What the setpoint sets.
        encodings: The encodings of quantities, and the value of one count.
            Default: as floating-point numbers.
        units: The units of quantities whose unit is fixed.
        status_count: How many registers the status bits take.
        status_bits: What the bits mean, from the lowest.
        gases: The gases by their numbers, where these are others than usual.
        serial: The first of the six registers of the serial number, two characters in each;
            ``None`` where it is not stated.
        tare: The register that tares the flow when 0xAA55 is written, instead of a command.
        reset: The register that resets the total in the same way.
    """

    provenance: str
    quantities: Mapping[Statistic, int] = field(default_factory=lambda: MappingProxyType({}))
    gas: int | None = 1200
    status: int = 1201
    command: int | None = 1000
    setpoint: int | None = None
    mix: int = 1050
    counted_from: int = 1
    commands: frozenset[SpecialCommand] = frozenset(SpecialCommand)
    setpoint_statistic: Statistic = Statistic.MASS_FLOW_SETPT
    encodings: Mapping[Statistic, tuple[Encoding, float]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    units: Mapping[Statistic, str] = field(default_factory=lambda: MappingProxyType({}))
    status_count: int = 2
    status_bits: tuple[StatusCode | str, ...] = _STATUS_BITS
    gases: tuple[Gas, ...] | None = None
    serial: int | None = None
    tare: int | None = None
    reset: int | None = None

    def address(self, register: int) -> int:
        """The wire address of a register."""
        return register - self.counted_from

    def encoding(self, statistic: Statistic) -> tuple[Encoding, float]:
        """Return the encoding of a quantity, and the value of one count."""
        return self.encodings.get(statistic, (Encoding.FLOAT, 1.0))

    @property
    def first(self) -> int:
        """The first register of a reading."""
        gas = () if self.gas is None else (self.gas,)
        return min(self.status, *gas, *self.quantities.values())

    @property
    def count(self) -> int:
        """How many registers a reading covers."""
        ends = [self.status + self.status_count]
        ends += [n + self.encoding(s)[0].count for s, n in self.quantities.items()]
        if self.gas is not None:
            ends.append(self.gas + 1)
        return max(ends) - self.first


_MEASURED = {
    Statistic.ABS_PRESS: 1203,
    Statistic.TEMP_STREAM: 1205,
    Statistic.VOL_FLOW: 1207,
    Statistic.MASS_FLOW: 1209,
}
MASS_FLOW_METER_REGISTERS = RegisterMap(
    _MANUAL, MappingProxyType(_MEASURED), commands=_OF_METERS | _OF_GAS
)
MASS_FLOW_CONTROLLER_REGISTERS = RegisterMap(
    _MANUAL,
    MappingProxyType(_MEASURED | {Statistic.MASS_FLOW_SETPT: 1211}),
    setpoint=1010,
)
#: "Operating Manual: CODA KM-Series Coriolis Mass Flow Meters", chapter "Communication". It has no
#: register of a gas, a setpoint or a command. The units are fixed. The density, in 1203 and 1204,
#: is left out: it is not a quantity of data frames.
CODA_METER_REGISTERS = RegisterMap(
    "the maker's operating manual for CODA KM meters; not captured",
    MappingProxyType(
        {
            Statistic.TEMP_STREAM: 1205,
            Statistic.VOL_FLOW: 1207,
            Statistic.MASS_FLOW: 1209,
            Statistic.TOT_MASS: 1211,
        }
    ),
    gas=None,
    command=None,
    commands=frozenset(),
    units=MappingProxyType(
        {
            Statistic.TEMP_STREAM: "`C",
            Statistic.VOL_FLOW: "m3/h",
            Statistic.MASS_FLOW: "g/h",
            Statistic.TOT_MASS: "g",
        }
    ),
)


def liquid_registers(
    pressure: Statistic = Statistic.GAUGE_PRESS, *, controller: bool = True
) -> RegisterMap:
    """The registers of a liquid flow meter or controller.

    According to the manual, 1203 and 1204 hold the instrument's pressure; ``pressure`` states which
    one. The register of the setpoint in use is not documented for these.
    """
    return RegisterMap(
        _MANUAL,
        MappingProxyType({pressure: 1203, Statistic.TEMP_STREAM: 1205, Statistic.VOL_FLOW: 1207}),
        gas=None,
        setpoint=1010 if controller else None,
        commands=_OF_METERS | _OF_CONTROLLERS if controller else _OF_METERS,
        setpoint_statistic=Statistic.VOL_FLOW_SETPT,
    )


def pressure_registers(pressure: Statistic, *, controller: bool = True) -> RegisterMap:
    """The registers of a meter or controller of absolute, gauge or differential pressure.

    Raises:
        KeyError: ``pressure`` is none of these.
    """
    setpoint = {
        Statistic.ABS_PRESS: Statistic.ABS_PRESS_SETPT,
        Statistic.GAUGE_PRESS: Statistic.GAUGE_PRESS_SETPT,
        Statistic.DIFF_PRESS: Statistic.DIFF_PRESS_SETPT,
    }[pressure]
    commands = _OF_METERS | _OF_CONTROLLERS if controller else _OF_METERS
    return RegisterMap(
        _MANUAL,
        MappingProxyType({pressure: 1203}),
        gas=None,
        setpoint=1010 if controller else None,
        commands=commands - {SpecialCommand.RESET_TOTALIZER},
        setpoint_statistic=setpoint,
    )


def basis_registers(decimals: int, *, controller: bool = True) -> RegisterMap:
    """The registers of a BASIS instrument from firmware 3.0.0 on.

    ``decimals`` are those of its flow readings. They are set in the factory and no register holds
    them: see the instrument's ASCII data frame. The manual ("BASIS 2 operating manual", chapter
    "Control") neither documents the register of the setpoint nor states whether registers count
    from 1.
    """
    quantities = {Statistic.TEMP_STREAM: 2102, Statistic.MASS_FLOW: 2103, Statistic.TOT_MASS: 2104}
    step = 10.0**-decimals
    encodings = {
        Statistic.TEMP_STREAM: (Encoding.INTEGER, 0.01),
        Statistic.MASS_FLOW: (Encoding.INTEGER, step),
        Statistic.TOT_MASS: (Encoding.LONG, step),
    }
    if controller:
        quantities |= {Statistic.MASS_FLOW_SETPT: 2106, Statistic.VALVE_DRIVE: 2107}
        encodings |= {
            Statistic.MASS_FLOW_SETPT: (Encoding.INTEGER, step),
            Statistic.VALVE_DRIVE: (Encoding.INTEGER, 0.01),
        }
    return RegisterMap(
        "the maker's operating manual for BASIS 2; not captured",
        MappingProxyType(quantities),
        gas=2100,
        status=2101,
        command=None,
        commands=frozenset(),
        encodings=MappingProxyType(encodings),
        units=MappingProxyType({Statistic.TEMP_STREAM: "`C"}),
        status_count=1,
        status_bits=_BASIS_BITS,
        gases=(Gas.AIR, Gas.AR, Gas.CO2, Gas.N2, Gas.O2, Gas.N2O, Gas.H2, Gas.HE, Gas.CH4),
        serial=26,
        tare=39,
        reset=53,
    )


def as_float(registers: tuple[int, ...]) -> float:
    """The number in two registers, the high half first.

    Returns the shortest decimal with this single-precision value: 14.62, and not
    14.619999885559082.
    """
    packed = struct.pack(">2H", *registers)
    value = float(struct.unpack(">f", packed)[0])
    for digits in (6, 7, 8):
        shorter = float(f"{value:.{digits}g}")
        try:
            if struct.pack(">f", shorter) == packed:
                return shorter
        except OverflowError:  # rounded up beyond the largest number
            continue
    return value


def from_float(value: float) -> tuple[int, int]:
    """Two registers that hold ``value``, rounded to single precision.

    Raises:
        OverflowError: it is too large for single precision.
    """
    high, low = struct.unpack(">2H", struct.pack(">f", value))
    return high, low


def decode_status(
    registers: tuple[int, ...], meanings: tuple[StatusCode | str, ...] = _STATUS_BITS
) -> tuple[frozenset[StatusCode], frozenset[str]]:
    """The conditions that status registers report, and what has no status code."""
    bits = 0
    for register in registers:
        bits = bits << 16 | register
    known: set[StatusCode] = set()
    unknown: set[str] = set()
    for bit in range(16 * len(registers)):
        if bits >> bit & 1:
            code = meanings[bit] if bit < len(meanings) else f"BIT{bit}"
            if isinstance(code, StatusCode):
                known.add(code)
            else:
                unknown.add(code)
    return frozenset(known), frozenset(unknown)


_PRESSURES: Final = {
    "absolute": Statistic.ABS_PRESS,
    "gauge": Statistic.GAUGE_PRESS,
    "differential": Statistic.DIFF_PRESS,
}
_BASIS: Final = ("basis-controller", "basis-meter")
_MAPS: Final = {
    "mass-flow-controller": MASS_FLOW_CONTROLLER_REGISTERS,
    "mass-flow-meter": MASS_FLOW_METER_REGISTERS,
    "liquid-controller": liquid_registers(controller=True),
    "liquid-meter": liquid_registers(controller=False),
    **{
        f"{name}-pressure-{kind}": pressure_registers(statistic, controller=kind == "controller")
        for name, statistic in _PRESSURES.items()
        for kind in ("controller", "meter")
    },
    "coda-meter": CODA_METER_REGISTERS,
}
#: The names that :func:`registers_of_family` takes.
FAMILIES: Final = (*_MAPS, *_BASIS)


def registers_of_family(family: str, *, decimals: int | None = None) -> RegisterMap:
    """The register map of a family, one of :data:`FAMILIES`.

    ``decimals`` are those of the flow readings of a BASIS instrument, for which no register tells
    them, and for no other.

    Raises:
        AlicatValidationError: there is no such family, or ``decimals`` are missing or too much.
    """
    if family in _BASIS:
        if decimals is None:
            raise AlicatValidationError(
                f"the family {family} needs the decimal places of its flow readings: no register "
                "contains them"
            )
        return basis_registers(decimals, controller=family == _BASIS[0])
    if decimals is not None:
        raise AlicatValidationError(
            f"decimals are for BASIS instruments; leave them out for {family}"
        )
    found = _MAPS.get(family)
    if found is None:
        raise AlicatValidationError(
            f"{family!r} is not a family of Modbus instruments; write one of {', '.join(FAMILIES)}"
        )
    return found
