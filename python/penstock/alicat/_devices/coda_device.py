"""CODA (Coriolis) instruments as objects."""

from __future__ import annotations

from penstock.alicat._devices.controller import FlowController
from penstock.alicat._devices.device import FlowMeter
from penstock.alicat._frames.data_frame import DataFrameField
from penstock.alicat._frames.reading import Reading

__all__ = ["CodaController", "CodaMeter"]


class CodaMeter(FlowMeter):
    """Measures the mass flow and the density of a gas or a liquid by the Coriolis effect.

    Its columns are those that the instrument describes (``??D*``). No frame of a CODA instrument
    was captured, and a setting of the instrument decides whether density is a column.
    """

    @property
    def density_field(self) -> DataFrameField | None:
        """The column of the density, with its unit; ``None`` where its frames have none."""
        # By name: the published list of statistics has no number for it.
        for field in self.data_frame_format.fields:
            if field.kind == "float" and "dens" in field.name.casefold():
                return field
        return None

    def density(self, reading: Reading) -> float | None:
        """The density in a reading, in the unit of its column; ``None`` if it has none."""
        field = self.density_field
        return None if field is None else reading.get_float(field.name)


class CodaController(CodaMeter, FlowController):
    """Measures and controls mass flow by the Coriolis effect; see :class:`CodaMeter`."""
