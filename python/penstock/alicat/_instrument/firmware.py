"""Firmware versions, and the four families that they fall into."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from penstock.alicat.errors import AlicatParseError

__all__ = ["FirmwareFamily", "FirmwareVersion"]


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
