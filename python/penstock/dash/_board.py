"""What the page shows: every device's curve and state, alarms, and the event log.

Plain data on one event loop. A recorder's sink or the reader of a recording fills it, and the
browsers' connections read it.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from penstock.dash._curve import Curve
from penstock.dash._rows import DeviceRows, EventRow, RecordedRows
from penstock.record.shown_quantity import Quantity

__all__ = ["Board", "Limits", "ShownDevice"]

_RAW_ROWS = 2_000_000
"""Samples of all devices that are kept as they are: about 160 MB."""
_EVENTS = 1000
_GAP_SECONDS = 60.0
"""How long a failed poll or a missed slot is shown."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The range of values without an alarm, ends included; None means without an end."""

    low: float | None = None
    high: float | None = None

    def breach(self, low: float, high: float) -> tuple[str, float] | None:
        """Which limit a range of values passes, and by which value; None if it is inside."""
        if self.high is not None and high > self.high:
            return "high", high
        if self.low is not None and low < self.low:
            return "low", low
        return None


@dataclass(slots=True)
class ShownDevice:
    """One device: its curve, its last row, its counts and alarms.

    ``missed`` counts skipped slots, ``errors`` failed polls. ``limit`` is the limit that the newest
    samples pass, ``"low"`` or ``"high"``. ``gap_t`` is the time of the last failed poll or missed
    slot, 0 without one. All times are nanoseconds since 1970.
    """

    name: str
    curve: Curve
    unit_id: str = ""
    quantity: Quantity | None = None
    value: float | None = None
    setpoint: float | None = None
    status: str = ""
    error: str | None = None
    errors: int = 0
    missed: int = 0
    gap_t: int = 0
    limit: str | None = None
    silent: bool = False


@dataclass(slots=True)
class Board:
    """Everything that is shown.

    ``live`` tells whether more rows are expected; ``ended`` is why none are, for people. Where
    rows are expected, a device without one for ``silence_s`` seconds, and for five of its own
    periods, raises an alarm.
    """

    title: str
    live: bool = True
    silence_s: float = 5.0
    limits: Mapping[str, Limits] = field(default_factory=dict)
    devices: dict[str, ShownDevice] = field(default_factory=dict)
    ended: str | None = None
    revision: int = 0
    """Grows when there are other devices, quantities or units."""
    events_seen: int = 0
    """The events so far; the log has the newest of them."""
    _description: bytes = b"{}"
    _log: deque[EventRow] = field(default_factory=lambda: deque(maxlen=_EVENTS))

    def expect(self, names: Mapping[str, Quantity | None]) -> None:
        """Show devices before their first sample."""
        for name, quantity in names.items():
            self._device(name, len(names)).quantity = quantity
        self.revision += 1

    def add(self, table: Any) -> None:
        """Add the rows of a ``pyarrow.Table`` or ``RecordBatch`` of a recording."""
        rows = RecordedRows(table)
        known = {
            name: device.quantity
            for name, device in self.devices.items()
            if device.quantity is not None
        }
        if rows.description != self._description:
            self._description = rows.description
            self.revision += 1  # a device that has just come can do more
            self._expect_described()
        count = max(len(rows.names), len(self.devices))
        for found in rows.devices(known):
            self._add_rows(self._device(found.name, count), found)
        for event in rows.events():
            self._add_event(event)

    def log(self, kind: str, message: str, device: str = "", t: int | None = None) -> None:
        """Add an event to the log; ``t`` defaults to now."""
        self._log.append(EventRow(time.time_ns() if t is None else t, device, kind, message))
        self.events_seen += 1

    def events_since(self, seen: int) -> list[EventRow]:
        """The events after the first ``seen``, as far as the log still has them."""
        new = min(self.events_seen - seen, len(self._log))
        return list(islice(self._log, len(self._log) - new, None))

    @property
    def span(self) -> tuple[int, int] | None:
        """The times of the first and the newest sample."""
        curves = [device.curve for device in self.devices.values() if device.curve.rows]
        if not curves:
            return None
        return min(curve.first or 0 for curve in curves), max(curve.last or 0 for curve in curves)

    def watch_silence(self, now: int) -> None:
        """Raise and clear the alarms of devices that send nothing; called about once a second."""
        if not self.live or self.ended is not None:
            return
        for device in self.devices.values():
            last = device.curve.last
            if last is None:
                continue
            patience = max(self.silence_s, 5 * device.curve.period)
            silent = now - last > patience * 1e9
            if silent and not device.silent:
                self.log("alarm", f"no sample for {patience:.3g} s", device.name, now)
            elif device.silent and not silent:
                self.log("alarm_cleared", "samples arrive again", device.name, now)
            device.silent = silent

    def alarms(self, device: ShownDevice, now: int) -> list[str]:
        """The words of the alarms of a device at ``now``."""
        found = []
        if device.limit is not None:
            found.append(device.limit)
        if device.silent:
            found.append("silent")
        if device.error is not None:
            found.append("failing")
        elif self.live and device.gap_t and now - device.gap_t < _GAP_SECONDS * 1e9:
            found.append("gaps")
        return found

    def _expect_described(self) -> None:
        # In the order of the configuration: files keep rows in that of arrival, or by device.
        described = json.loads(self._description).get("devices")
        if isinstance(described, dict):
            for name in described:
                self._device(name, len(described))

    def _device(self, name: str, count: int) -> ShownDevice:
        device = self.devices.get(name)
        if device is None:
            device = self.devices[name] = ShownDevice(name, Curve(_RAW_ROWS // max(1, count)))
            self.revision += 1
        return device

    def _add_event(self, event: EventRow) -> None:
        self._log.append(event)
        self.events_seen += 1
        device = self.devices.get(event.device)
        if device is not None and event.kind == "missed_slots":
            # The sentence of the recorder begins with the number.
            number = event.message.partition(" ")[0]
            device.missed += int(number) if number.isdecimal() else 1
            device.gap_t = max(device.gap_t, event.t)

    def _add_rows(self, device: ShownDevice, rows: DeviceRows) -> None:
        if rows.quantity is not None and rows.quantity != device.quantity:
            device.quantity = rows.quantity
            self.revision += 1
        device.unit_id = rows.unit_id or device.unit_id
        device.curve.append(rows.t, rows.value, rows.setpoint)
        device.errors += rows.errors
        device.gap_t = max(device.gap_t, rows.last_error_t)
        device.error = rows.error
        if rows.answered is not None:
            # Behind a failed poll the last answer stays, and the tile marks it as old.
            device.value = _number(rows.value[rows.answered])
            device.setpoint = _number(rows.setpoint[rows.answered])
            device.status = rows.status
        limits = self.limits.get(device.name)
        if limits is not None:
            self._check_limits(device, limits, rows)

    def _check_limits(self, device: ShownDevice, limits: Limits, rows: DeviceRows) -> None:
        values = rows.value[~np.isnan(rows.value)]
        if not len(values):
            return
        unit = f" {device.quantity.unit}" if device.quantity and device.quantity.unit else ""
        last = float(values[-1])
        # All samples count: a single one beyond a limit may be thinned away on its way to a chart's
        # eye, but is in the log.
        worst = limits.breach(float(values.min()), float(values.max()))
        if worst is not None and device.limit is None:
            which, value = worst
            limit = limits.high if which == "high" else limits.low
            word = "above" if which == "high" else "below"
            message = f"{value:g}{unit} is {word} the limit {limit:g}{unit}"
            self.log("alarm", message, device.name, int(rows.t[-1]))
            device.limit = which
        now = limits.breach(last, last)
        if now is not None:
            device.limit = now[0]
        elif device.limit is not None:
            message = f"{last:g}{unit} is within the limits again"
            self.log("alarm_cleared", message, device.name, int(rows.t[-1]))
            device.limit = None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
