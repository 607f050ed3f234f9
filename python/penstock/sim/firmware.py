"""What differs from one firmware generation to the next, as values.

The three that are here were captured from instruments: a 10v20, an 8v17 and a 5v12 controller.
Anything else is `dataclasses.replace` of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

__all__ = ["FIRMWARES", "FIRMWARE_5V12", "FIRMWARE_8V17", "FIRMWARE_10V20", "Firmware", "Refusal"]


class Refusal(Enum):
    """How an instrument answers what it does not understand. Real ones differ widely."""

    #: `?`
    QUESTION = "question"
    #: `A ?`
    UNIT_QUESTION = "unit-question"
    #: nothing at all
    SILENCE = "silence"
    #: an ordinary data frame, as if it had been polled
    FRAME = "frame"
    #: `A   1 ---`
    PLACEHOLDER = "placeholder"
    #: `A   Feature Not Enabled`
    NOT_ENABLED = "not-enabled"


@dataclass(frozen=True, slots=True)
class Firmware:
    """One firmware generation: its name, its layouts, its commands and its manners."""

    name: str
    built: str
    #: Three-letter codes in the order of the `??D*` table, `ADC` (the error row) left out.
    statuses: tuple[str, ...]
    commands: frozenset[str]
    #: The older `??D*` layout: name, type, minimum, maximum, unit; no statistic codes.
    legacy_table: bool = False
    signed_setpoint: bool = True
    #: Decimals of the flow columns fewer than the column width allows.
    fewer_decimals: int = 0
    gas_width: int = 6
    contact: str = "info@alicat.com"
    model_label: str = "Model Number "
    #: What stands in place of the unit id in front of a streamed frame.
    stream_prefix: str = " "
    #: Any command that begins with L locks the display and is answered with a frame.
    locks_on_l: bool = False
    unknown: Refusal = Refusal.QUESTION
    #: Commands that are refused in a manner of their own.
    refusals: Mapping[str, Refusal] = field(default_factory=dict)


_EVERY: Final = frozenset({"", "@", "VE", "??M*", "??D*", "??G*", "S", "DV", "C", "U", "T", "V",
                           "TP", "P"})  # fmt: skip

FIRMWARE_10V20: Final = Firmware(
    name="10v20.0-R24",
    built="Jan  9 2025,15:04:07",
    statuses=("OPL", "POV", "P2O", "TOV", "VOV", "MOV", "TMF", "OVR", "COM", "HLD", "EXH", "GTA",
              "LCK"),
    commands=_EVERY | {"LS", "LSS", "LV", "GS", "FPF", "DCU", "HP", "HC", "L", "NCS", "SR", "VD"},
)  # fmt: skip

FIRMWARE_8V17: Final = Firmware(
    name="8v17.0-R23",
    built="Nov 27 2019,15:28:45",
    statuses=("OPL", "POV", "P2O", "TOV", "VOV", "MOV", "TMF", "OVR", "HLD", "EXH", "LCK"),
    commands=_EVERY | {"G", "FPF", "HP", "HC", "L", "SR"},
    contact="Fax  520-290-0109",
    stream_prefix="@",
    refusals=dict.fromkeys(("LS", "LSS", "LV", "GS", "LCDB", "LCA"), Refusal.FRAME),
)

FIRMWARE_5V12: Final = Firmware(
    name="5v12.0-R22",
    built="Aug 14 2015,10:12:01",
    statuses=("LCK", "OVR", "POV", "TOV", "VOV", "MOV"),
    commands=_EVERY | {"G", "HP", "HC"},
    legacy_table=True,
    signed_setpoint=False,
    fewer_decimals=1,
    gas_width=7,
    contact="Fax  520-290-0109",
    model_label="Model Number  ",
    stream_prefix="@",
    locks_on_l=True,
    refusals={
        "GS": Refusal.FRAME,
        "VD": Refusal.SILENCE,
        "ZCA": Refusal.NOT_ENABLED,
        "ZCP": Refusal.NOT_ENABLED,
    },
)

FIRMWARES: Final[Mapping[str, Firmware]] = {
    "10v20": FIRMWARE_10V20,
    "8v17": FIRMWARE_8V17,
    "5v12": FIRMWARE_5V12,
}
