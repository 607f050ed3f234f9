"""The families of Modbus instruments, for a parser that loads no protocol.

They are those of :data:`penstock.alicat.modbus.FAMILIES`.
"""

from __future__ import annotations

MODBUS_FAMILIES = (
    "mass-flow-controller",
    "mass-flow-meter",
    "liquid-controller",
    "liquid-meter",
    *(
        f"{reference}-pressure-{kind}"
        for reference in ("absolute", "gauge", "differential")
        for kind in ("controller", "meter")
    ),
    "coda-meter",
    "basis-controller",
    "basis-meter",
)
