"""The remedies of errors in the words of the command line.

The library names its own functions. Each pair is a phrase of one of its sentences, and what a
person at the command line does instead.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["REMEDIES", "in_own_words"]

REMEDIES: Final = (
    (
        "open a bidirectional instrument with "
        "assume_capabilities=Capability.BIDIRECTIONAL to allow it",
        "add --assume bidirectional if the instrument is bidirectional",
    ),
    ("repeat it with confirm=True", "repeat it with --yes"),
    (
        "state unit=... with it, or call refresh_data_frame_format() to take the new unit for "
        "granted",
        "state the unit with --in",
    ),
    ("state the time_unit that max_ramp refers to, also for 0", "state the time with --per"),
    ("gas_list() names those", "penstock alicat gas PORT --list names those"),
    ("or with engineering_units()", "or with penstock alicat unit"),
    ("choose the serial line with setpoint_source('S')", "penstock alicat source PORT S"),
    ("and omit unit=... if it is the same", "and omit --in if it is the same"),
)

_ASSUMED = re.compile(r"assume_capabilities=Capability\.(\w+)")


def in_own_words(sentence: str) -> str:
    """A sentence of the library, with the remedies of the command line."""
    for library, here in REMEDIES:
        sentence = sentence.replace(library, here)
    return _ASSUMED.sub(lambda m: f"--assume {m[1].lower().replace('_', '-')}", sentence)
