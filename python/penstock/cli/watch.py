"""The recorder's source, looked over its shoulder: each answer is noted as it passes through.

The recorder hands on batches, at the pace of the disk; a live table wants the newest value. So
the view of a run is taken where the answers come in, and its counts where the rows are counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from penstock.alicat import AlicatManager, Device, DeviceResult, FieldSchema, Reading
from penstock.cli.errors import one_line
from penstock.cli.progress import DeviceProgress, Progress

__all__ = ["WatchedSource"]


class WatchedSource:
    """A :class:`penstock.record.PollSource` that passes *manager* on and keeps *progress*."""

    def __init__(self, manager: AlicatManager, progress: Progress) -> None:
        self._manager = manager
        self._progress = progress
        self._start_ns: int | None = None

    @property
    def names(self) -> Sequence[str]:
        return self._manager.names

    def poll_groups(self) -> Sequence[Sequence[str]]:
        return self._manager.poll_groups()

    def field_schemas(self) -> Mapping[str, Sequence[FieldSchema]]:
        return self._manager.field_schemas()

    def get(self, name: str) -> Device:
        """The device, whose model and serial number go into the files."""
        return self._manager.get(name)

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, DeviceResult[Reading]]:
        asked = time.monotonic_ns()
        try:
            results = await self._manager.poll(names)
        except Exception as error:
            # The recorder makes rows of it; the view must not show the old values as fresh.
            for name in self.names if names is None else names:
                device = self._progress.devices[name]
                device.failed(at=self._since_start(asked), error=one_line(error))
            raise
        for name, result in results.items():
            self._note(self._progress.devices[name], result)
        return results

    def _note(self, device: DeviceProgress, result: DeviceResult[Reading]) -> None:
        self._since_start(result.requested_monotonic_ns)
        at = self._since_start(result.received_monotonic_ns)
        reading = result.value
        if reading is None:
            error = result.error
            device.failed(at=at, error=one_line(error) if error is not None else "no answer")
            return
        quantity = device.quantity
        device.answered(
            at=at,
            value=_number(reading, quantity.name if quantity is not None else None),
            setpoint=_number(reading, quantity.setpoint if quantity is not None else None),
            status=",".join(sorted(reading.status)),
            latency_s=(result.received_monotonic_ns - result.requested_monotonic_ns) / 1e9,
        )

    def _since_start(self, monotonic_ns: int) -> float:
        if self._start_ns is None:
            self._start_ns = monotonic_ns
        return (monotonic_ns - self._start_ns) / 1e9


def _number(reading: Reading, field: str | None) -> float | None:
    value = reading.values.get(field) if field is not None else None
    return value if isinstance(value, float) else None
