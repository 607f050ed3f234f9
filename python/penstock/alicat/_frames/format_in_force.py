"""The data frame format that is in force, and its decoder."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from penstock.alicat._bus.exchange import Exchange
from penstock.alicat._frames.data_frame import DataFrameField, DataFrameFormat
from penstock.alicat._frames.frame_decoder import FrameDecoder, ParsedFrame
from penstock.alicat._frames.reading import Reading
from penstock.alicat.commands.command import ReportedUnit
from penstock.alicat.registry import Statistic
from penstock.alicat.registry.units import are_same_unit

__all__ = ["FormatInForce"]


class FormatInForce:
    """A format with its decoder, created once for many frames. Immutable; does no I/O."""

    __slots__ = ("_names_by_statistic", "_units", "columns", "decoder")

    def __init__(self, columns: DataFrameFormat, decoder: FrameDecoder) -> None:
        self.columns = columns
        self.decoder = decoder
        self._units = MappingProxyType(columns.units())
        self._names_by_statistic = MappingProxyType(
            {f.statistic: f.name for f in reversed(columns.fields) if f.statistic}
        )

    @property
    def setpoint_label(self) -> str | None:
        """The unit of the setpoint, as the instrument writes it."""
        field = self.columns.setpoint_field
        return None if field is None else field.unit_label

    def field_of(self, quantity: Statistic | None) -> DataFrameField | None:
        """The column of a quantity, or of the setpoint."""
        if quantity is None:
            return self.columns.setpoint_field
        return next((f for f in self.columns.fields if f.statistic is quantity), None)

    def first_difference(
        self, reported: Iterable[ReportedUnit]
    ) -> tuple[DataFrameField, str] | None:
        """The first column that an answer reports in another unit, and that unit."""
        for unit in reported:
            field = self.field_of(unit.quantity)
            if field is None or field.unit_label is None or not unit.label:
                continue
            if not are_same_unit(field.unit_label, unit.label):
                return field, unit.label
        return None

    def reading_of(self, exchange: Exchange[ParsedFrame]) -> Reading:
        """Return the reading of a frame: its values, the units in force and its times."""
        frame, requested_ns, requested_unix_ns, received_ns, received_unix_ns = exchange
        return Reading(
            frame.unit_id,
            frame.values,
            self._units,
            frame.status,
            requested_ns,
            requested_unix_ns,
            received_ns,
            received_unix_ns,
            frame.unknown_status,
            self._names_by_statistic,
        )

    def __str__(self) -> str:
        return ", ".join(
            f.name if f.unit_label is None else f"{f.name} in {f.unit_label}"
            for f in self.columns.fields
        )
