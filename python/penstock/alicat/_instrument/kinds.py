"""The kind of an instrument, its media, optional hardware and firmware family.

The letters at the start of a model number say the kind and the medium: ``MC-500SCCM-D`` is an
``MC``: the letters before the first dash are a family and its options (D dual valve, W low pressure
drop, R large valve, S stainless, ...). Alicat combines options freely and invents new ones, so an
unlisted combination (``MCVS``) falls back to the longest listed beginning of its own family; it is
not refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, Flag, StrEnum, auto

from penstock.alicat.errors import AlicatParseError


class DeviceKind(StrEnum):
    """Meter or controller, of flow or of pressure."""

    FLOW_METER = "flow_meter"
    FLOW_CONTROLLER = "flow_controller"
    PRESSURE_METER = "pressure_meter"
    PRESSURE_CONTROLLER = "pressure_controller"
    UNKNOWN = "unknown"

    @property
    def is_controller(self) -> bool:
        """Whether instruments of this kind have a setpoint."""
        return self in (DeviceKind.FLOW_CONTROLLER, DeviceKind.PRESSURE_CONTROLLER)


class Medium(Flag):
    """What flows through the instrument. Some models are made for both."""

    NONE = 0
    GAS = auto()
    LIQUID = auto()


class Capability(Flag):
    """Optional hardware, which the model name does not show.

    An instrument cannot be asked for most of these, so they count as absent unless the caller
    states them: ``open_device(..., assume_capabilities=Capability.BIDIRECTIONAL)``.
    """

    NONE = 0
    BAROMETER = auto()
    TAREABLE_ABSOLUTE_PRESSURE = auto()
    SECONDARY_PRESSURE = auto()
    ANALOG_INPUT = auto()
    ANALOG_OUTPUT = auto()
    SECONDARY_ANALOG_OUTPUT = auto()
    REMOTE_TARE_PIN = auto()
    MULTI_VALVE = auto()
    THIRD_VALVE = auto()
    BIDIRECTIONAL = auto()
    TOTALIZER = auto()
    DISPLAY = auto()


_FLOW_CONTROLLERS = (
    "MC MCD MCDW MCE MCH MCP MCQ MCR MCRD MCRH MCRW MCRWD MCS MCT MCV MCW SFF BC IMC"
)
_FLOW_METERS = "M MB MBS MQ MS MW MWB B IM"
_PRESSURE_CONTROLLERS = "PC PC3 PCAS PCD PCD3 PCH PCP PCPD PCR PCR3 PCRD PCRD3 PCS EPC EPCD IVC"
_PRESSURE_CONTROLLERS_ANY_MEDIUM = "PCDS PCRDS PCRD3S"
_PRESSURE_METERS = "P PB PS EP"
_LIQUID_CONTROLLERS = "LC LCR"
_LIQUID_METERS = "L LB"
_CORIOLIS_METERS = "K KM"
_CORIOLIS_CONTROLLERS = "KC KF KG"

_EITHER = Medium.GAS | Medium.LIQUID

_RULES: dict[str, tuple[DeviceKind, Medium]] = {
    letters: (kind, medium)
    for names, kind, medium in (
        (_FLOW_CONTROLLERS, DeviceKind.FLOW_CONTROLLER, Medium.GAS),
        (_FLOW_METERS, DeviceKind.FLOW_METER, Medium.GAS),
        (_PRESSURE_CONTROLLERS, DeviceKind.PRESSURE_CONTROLLER, Medium.GAS),
        (_PRESSURE_CONTROLLERS_ANY_MEDIUM, DeviceKind.PRESSURE_CONTROLLER, _EITHER),
        (_PRESSURE_METERS, DeviceKind.PRESSURE_METER, Medium.GAS),
        (_LIQUID_CONTROLLERS, DeviceKind.FLOW_CONTROLLER, Medium.LIQUID),
        (_LIQUID_METERS, DeviceKind.FLOW_METER, Medium.LIQUID),
        (_CORIOLIS_METERS, DeviceKind.FLOW_METER, _EITHER),
        (_CORIOLIS_CONTROLLERS, DeviceKind.FLOW_CONTROLLER, _EITHER),
    )
    for letters in names.split()
}


def is_coriolis_model(model: str | None) -> bool:
    """Whether a model number is one of the CODA line (``KC-5KG-D``)."""
    return _letters_of(model) in f"{_CORIOLIS_METERS} {_CORIOLIS_CONTROLLERS}".split()


def kind_and_media_of_model(model: str | None) -> tuple[DeviceKind, Medium]:
    """The kind and media of a model number; ``(UNKNOWN, NONE)`` if it does not determine them."""
    letters = _letters_of(model)
    exact = _RULES.get(letters)
    if exact is not None:
        return exact
    # A single letter does not determine a longer word: "MAGIC" is not an M meter.
    for length in range(len(letters) - 1, 1, -1):
        rule = _RULES.get(letters[:length])
        if rule is not None:
            return rule
    return DeviceKind.UNKNOWN, Medium.NONE


def _letters_of(model: str | None) -> str:
    return (model or "").strip().upper().partition("-")[0]


class FirmwareFamily(Enum):
    """A family of hardware and firmware. An instrument never changes its family."""

    GP = "GP"
    V1_V7 = "1v-7v"
    V8_V9 = "8v-9v"
    V10 = "10v"
    BASIS = "BASIS"
    """The BASIS line, which has commands and versions of its own."""


_GP = re.compile(r"(?<![A-Za-z0-9])GP(?![A-Za-z])")
_NUMBER = re.compile(r"(?<![\w.])(\d{1,3})\s*[vV.]\s*(\d{1,3})(?!\d)")


@dataclass(frozen=True, slots=True)
class FirmwareVersion:
    """A version within its family, for example ``10v20``.

    Versions of one family are ordered. A comparison between families raises ``TypeError``: "10v05
    has this command" says nothing about a GP instrument, so there is no answer.
    """

    family: FirmwareFamily
    major: int
    minor: int
    raw: str = field(compare=False, default="")

    @classmethod
    def parse(cls, software: str) -> FirmwareVersion:
        """Find the version in the text of an instrument (``10v20.0-R24``, ``GP07R100``).

        Raises:
            AlicatParseError: the text names no version.
        """
        if _GP.search(software):
            return cls(FirmwareFamily.GP, 0, 0, software)
        match = _NUMBER.search(software)
        if match is None or int(match[1]) < 1:
            raise AlicatParseError(
                f"no firmware version in {software!r}: expected a form like 10v20 or GP",
                field_name="software",
                expected="<major>v<minor> or GP",
                actual=software,
            )
        major = int(match[1])
        if major <= 7:
            family = FirmwareFamily.V1_V7
        elif major <= 9:
            family = FirmwareFamily.V8_V9
        else:
            family = FirmwareFamily.V10
        return cls(family, major, int(match[2]), software)

    def _key(self, other: FirmwareVersion) -> tuple[tuple[int, int], tuple[int, int]]:
        if self.family is not other.family:
            raise TypeError(
                f"firmware {self} and {other} are of different families and have no order; "
                "compare .family first"
            )
        return (self.major, self.minor), (other.major, other.minor)

    def __lt__(self, other: FirmwareVersion) -> bool:
        mine, theirs = self._key(other)
        return mine < theirs

    def __le__(self, other: FirmwareVersion) -> bool:
        mine, theirs = self._key(other)
        return mine <= theirs

    def __gt__(self, other: FirmwareVersion) -> bool:
        mine, theirs = self._key(other)
        return mine > theirs

    def __ge__(self, other: FirmwareVersion) -> bool:
        mine, theirs = self._key(other)
        return mine >= theirs

    def __str__(self) -> str:
        if self.family is FirmwareFamily.GP:
            return "GP"
        if self.family is FirmwareFamily.BASIS:
            return f"BASIS {self.raw}"
        return f"{self.major}v{self.minor:02d}"

    @property
    def has_modern_setpoint(self) -> bool:
        """Whether ``LS`` reads and writes the setpoint: 10v, and 9v00 or newer of 8v-9v.

        On 1v-7v every command that begins with ``L`` locks the front panel, ``LS`` included, so it
        must never be sent there, not even as a probe.
        """
        return self.family is FirmwareFamily.V10 or (
            self.family is FirmwareFamily.V8_V9 and self.major >= 9
        )
