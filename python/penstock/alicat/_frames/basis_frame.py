"""The data frame of BASIS instruments, which they do not describe.

The BASIS 2 operating manual lists its columns::

    A +24.57 +100.0 +0021513.0 +100.0 +55.13     N2

The fields are unit id, temperature in °C, flow, total, for controllers also setpoint and valve
drive in percent, then the gas and the status codes. The units of flow and total are queried
(``FPF 0``, ``FPF 1``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from penstock.alicat._bus.replies import refuse_line
from penstock.alicat._frames.data_frame import (
    DataFrameField,
    DataFrameFormat,
    DataFrameFormatFlavor,
)
from penstock.alicat.errors import AlicatConnectionError, AlicatError
from penstock.alicat.registry import Statistic, Unit
from penstock.alicat.registry.units import clean_unit_label

if TYPE_CHECKING:
    from penstock.alicat._bus.client import AlicatProtocolClient

__all__ = ["read_basis_columns"]

_FRAME = re.compile(rb"([A-Z])((?:\s+[+-]?\d+(?:\.\d*)?)+)\s+([A-Za-z]\S*)((?:\s+[A-Z]{3})*)$")
_FULL_SCALE = re.compile(rb"([A-Z])\s+([+-]?\d+(?:\.\d*)?)\s+([^\s\d]\S*)$")
_STATUS_CODES = frozenset({"TOV", "MOV", "OVR", "HLD", "VTM"})
_METER_NUMBERS = 3
_CONTROLLER_NUMBERS = 5


async def read_basis_columns(
    client: AlicatProtocolClient, unit_id: str, *, timeout: float, generation: int | None = None
) -> DataFrameFormat:
    """Ask for a frame and for the units of flow and total.

    Raises:
        AlicatParseError: the frame has another number of columns than the manual states.
        AlicatError: as for :func:`penstock.alicat._instrument.identification.identify`.
    """

    def sample_of(line: bytes) -> bytes:
        match = _FRAME.match(line)
        if (
            match is None
            or match[1] != unit_id.encode()
            or len(match[2].split()) not in (_METER_NUMBERS, _CONTROLLER_NUMBERS)
        ):
            refuse_line(line, unit_id, wanted="the data frame of a BASIS instrument")
        return line

    async def full_scale(quantity: int) -> tuple[float | None, str | None]:
        def decode(line: bytes) -> tuple[float, str]:
            match = _FULL_SCALE.match(line)
            if match is None or match[1] != unit_id.encode():
                refuse_line(line, unit_id, wanted="its full scale")
            return float(match[2]), clean_unit_label(match[3].decode("ascii", "replace"))

        command = f"{unit_id}FPF {quantity}\r".encode()
        try:
            exchange = await client.exchange(
                command, decode, timeout=timeout, generation=generation
            )
        except AlicatConnectionError:
            raise
        except AlicatError:
            return None, None
        return exchange.value

    sample = await client.exchange(
        f"{unit_id}\r".encode(), sample_of, timeout=timeout, generation=generation
    )
    match = _FRAME.match(sample.value)
    assert match is not None
    controls = len(match[2].split()) == _CONTROLLER_NUMBERS
    most, flow_unit = await full_scale(0)
    _, total_unit = await full_scale(1)
    fields = [
        _field("Flow_Temp", Statistic.TEMP_STREAM, "°C"),
        _field("Mass_Flow", Statistic.MASS_FLOW, flow_unit),
        _field("Mass_Total", None, total_unit),
    ]
    if controls:
        fields.append(_field("Mass_Flow_Setpt", Statistic.MASS_FLOW_SETPT, flow_unit, maximum=most))
        fields.append(_field("Valve_Drive", None, "%"))
    fields.append(_field("Gas", Statistic.FLUID_NAME, None, kind="text"))
    return DataFrameFormat(tuple(fields), DataFrameFormatFlavor.FIXED, _STATUS_CODES)


def _field(
    name: str,
    statistic: Statistic | None,
    label: str | None,
    *,
    kind: Literal["float", "text"] = "float",
    maximum: float | None = None,
) -> DataFrameField:
    return DataFrameField(
        name=name,
        raw_name=name.replace("_", " "),
        type_name="string" if kind == "text" else "decimal",
        kind=kind,
        statistic=statistic,
        unit_label=label,
        unit=Unit.from_label(label) if label else None,
        width=None,
        maximum=maximum,
    )
