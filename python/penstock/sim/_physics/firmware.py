"""The differences between firmware generations, as values.

Each generation names its provenance: captured from an instrument, stated by a manual, expected by a
published client, or a guess. Make others with ``dataclasses.replace``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final


class Refusal(Enum):
    """The answer of an instrument to an unknown command. Real ones differ widely."""

    #: ``?``
    QUESTION = "question"
    #: ``A ?``
    UNIT_QUESTION = "unit-question"
    #: nothing at all
    SILENCE = "silence"
    #: an ordinary data frame, as if it had been polled
    FRAME = "frame"
    #: ``A   1 ---``
    PLACEHOLDER = "placeholder"
    #: ``A   Feature Not Enabled``
    NOT_ENABLED = "not-enabled"
    #: an empty line, then ``?``
    BLANK_QUESTION = "blank-question"


class Provenance(Enum):
    """Where the behaviour of a firmware comes from. A guess is never called captured."""

    #: Tables, frames and refusals were recorded from an instrument.
    CAPTURED = "captured"
    #: The tables or the frame were recorded; the rest is of the nearest firmware.
    PARTLY_CAPTURED = "partly captured"
    #: The manufacturer's manual states it; no instrument was seen.
    MANUAL = "manual"
    #: Made up from the nearest firmware and from what the manuals leave open.
    GUESS = "guess"


@dataclass(frozen=True, slots=True)
class Firmware:
    """One firmware generation: its name, layouts, commands and refusals."""

    name: str
    built: str
    #: Three-letter codes in the order of the ``??D*`` table, ``ADC`` (the error row) left out.
    statuses: tuple[str, ...]
    commands: frozenset[str]
    #: The older ``??D*`` layout: name, type, minimum, maximum, unit; no statistic codes.
    legacy_table: bool = False
    signed_setpoint: bool = True
    #: Decimals of the flow columns fewer than the column width allows.
    fewer_decimals: int = 0
    gas_width: int = 6
    contact: str = "info@alicat.com"
    model_label: str = "Model Number "
    #: The text instead of the unit id in a streamed frame.
    stream_prefix: str = " "
    #: Any command that begins with L locks the display and is answered with a frame.
    locks_on_l: bool = False
    unknown: Refusal = Refusal.QUESTION
    #: Commands that are refused in another way than ``unknown``.
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    #: Commands that are understood only with ``$$`` before them.
    prefixed: frozenset[str] = frozenset()
    #: The tables of GP instruments: one-digit row numbers, short labels, backspaces as padding, and
    #: the gas list on one line.
    gp_tables: bool = False
    #: The highest gas number in its list.
    last_gas: int = 210
    provenance: Provenance = Provenance.GUESS
    #: One sentence for each thing that is not of the provenance named.
    notes: str = ""


_EVERY: Final = frozenset({"", "@", "VE", "??M*", "??D*", "??G*", "S", "DV", "C", "U", "T", "V",
                           "TP", "P", "PC", "R", "W", "GM", "GD", "E", "H"})  # fmt: skip

FIRMWARE_10V20: Final = Firmware(
    name="10v20.0-R24",
    built="Jan  9 2025,15:04:07",
    statuses=("OPL", "POV", "P2O", "TOV", "VOV", "MOV", "TMF", "OVR", "COM", "HLD", "EXH", "GTA",
              "LCK"),
    commands=_EVERY | {"LS", "LSS", "LV", "GS", "FPF", "DCU", "HP", "HC", "L", "NCS", "SR", "VD",
                       "TB", "LSRC", "DCZ", "DCA", "DCFRP", "DCFRT", "ASOCV", "FFP", "UD", "TC",
                       "TCR", "ZCP", "ZCA", "LCDB", "NCB"},
    provenance=Provenance.CAPTURED,
    notes="The forms of SR, registers, mixes, batches and of a change of unit id or baud rate are "
          "documented ones, not captured.",
)  # fmt: skip

FIRMWARE_8V17: Final = Firmware(
    name="8v17.0-R23",
    built="Nov 27 2019,15:28:45",
    statuses=("OPL", "POV", "P2O", "TOV", "VOV", "MOV", "TMF", "OVR", "HLD", "EXH", "LCK"),
    commands=_EVERY | {"G", "FPF", "HP", "HC", "L", "SR"},
    contact="Fax  520-290-0109",
    stream_prefix="@",
    refusals=dict.fromkeys(("LS", "LSS", "LV", "GS", "LCDB", "LCA"), Refusal.FRAME),
    provenance=Provenance.CAPTURED,
    notes="The forms of SR, registers, mixes and of a change of unit id are documented ones, not "
    "captured.",
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
    provenance=Provenance.CAPTURED,
    notes="The build date is made up. The forms of registers, mixes and of a change of unit id are "
    "documented ones, not captured.",
)

FIRMWARE_6V21: Final = replace(
    FIRMWARE_5V12,
    name="6v21.0-R22",
    built="Jan  1 2016,00:00:00",
    statuses=("OVR", "POV", "TOV", "VOV", "MOV", "OPL", "HLD", "LCK"),
    legacy_table=False,
    model_label="Model Number ",
    refusals={**FIRMWARE_5V12.refusals, "FPF": Refusal.BLANK_QUESTION},
    provenance=Provenance.PARTLY_CAPTURED,
    notes="The order of the status rows, the build date and the refusals other than those of FPF, "
    "ZCA and ZCP are guesses.",
)

FIRMWARE_7V09: Final = replace(
    FIRMWARE_6V21,
    name="7v09.0-R22",
    built="Jan  1 2017,00:00:00",
    fewer_decimals=0,
    refusals=dict.fromkeys(("LCDB", "LCA", "GS"), Refusal.FRAME),
    provenance=Provenance.PARTLY_CAPTURED,
    notes="Only the columns were captured; status rows, build date and refusals are guesses.",
)

FIRMWARE_8V30: Final = replace(
    FIRMWARE_8V17,
    name="8v30.0-R23",
    built="Jan  1 2020,00:00:00",
    statuses=("OPL", "POV", "TOV", "VOV", "MOV", "TMF", "OVR", "HLD", "EXH", "LCK"),
    commands=FIRMWARE_8V17.commands | {"VD", "FFP", "UD"},
    provenance=Provenance.PARTLY_CAPTURED,
    notes="The number of rows of the frame's table was captured; the build date is made up.",
)

FIRMWARE_9V00: Final = replace(
    FIRMWARE_8V30,
    name="9v00.0-R23",
    built="Jan  1 2020,00:00:00",
    commands=FIRMWARE_8V30.commands | {"LS", "LV"},
    refusals=dict.fromkeys(("LSS", "GS", "LCDB", "LCA"), Refusal.FRAME),
    provenance=Provenance.GUESS,
    notes="An 8v30 with the commands that came with 9v00, LS and LV.",
)

FIRMWARE_10V04: Final = replace(
    FIRMWARE_10V20,
    name="10v04.0-R24",
    built="Mar  3 2021,11:11:11",
    statuses=("OPL", "POV", "P2O", "TOV", "VOV", "MOV", "TMF", "OVR", "COM", "HLD", "EXH", "LCK"),
    commands=FIRMWARE_8V17.commands | {"LS", "LV", "VD", "FFP", "UD", "TC"},
    refusals={},
    provenance=Provenance.PARTLY_CAPTURED,
    notes="Table and frame are those of a captured meter; its commands are those of manuals.",
)

FIRMWARE_GP: Final = replace(
    FIRMWARE_5V12,
    name="GP07R100",
    built="",
    commands=frozenset({"", "@", "??M*", "??D*", "??G*", "G", "W", "R", "H", "C"}),
    prefixed=frozenset({"G", "W", "R", "H", "C"}),
    gp_tables=True,
    last_gas=29,
    locks_on_l=False,
    unknown=Refusal.SILENCE,
    refusals={},
    provenance=Provenance.MANUAL,
    notes="Silence at unknown commands and the labels of the tables are those of manuals and "
    "published clients; where the backspaces stand is a guess.",
)

#: A Coriolis instrument. No capture and no manual of its ASCII tables was at hand.
FIRMWARE_CODA: Final = replace(
    FIRMWARE_10V20,
    name="10v20.0-K24",
    provenance=Provenance.GUESS,
    notes="A 10v20 with the columns temperature, volumetric flow, mass flow and setpoint. The name "
    "of the revision and all layouts are guesses.",
)

FIRMWARE_BASIS: Final = Firmware(
    name="2.1.0",
    built="",
    statuses=("TOV", "MOV", "OVR", "HLD", "VTM"),
    commands=frozenset({"", "@", "VE", "SN", "FPF", "S", "GS", "V", "T", "TB", "LCG", "HPUR", "C",
                        "ZCA", "NCB", "DV"}),
    provenance=Provenance.MANUAL,
    notes="The frame and the commands are those of the operating manual. That unknown commands are "
          "answered with ?, and the form of GS, SN, VE and DV 64, are guesses.",
)  # fmt: skip

FIRMWARES: Final[Mapping[str, Firmware]] = {
    "10v20": FIRMWARE_10V20,
    "10v04": FIRMWARE_10V04,
    "9v00": FIRMWARE_9V00,
    "8v30": FIRMWARE_8V30,
    "8v17": FIRMWARE_8V17,
    "7v09": FIRMWARE_7V09,
    "6v21": FIRMWARE_6V21,
    "5v12": FIRMWARE_5V12,
    "gp": FIRMWARE_GP,
    "coda": FIRMWARE_CODA,
    "basis": FIRMWARE_BASIS,
}
