"""What the page shows: every device's curves and state, alarms, and the event log.

Plain data on one event loop. A recorder's sink or the reader of a recording fills it, and the
browsers' connections read it.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from penstock._renamed import renamed_fields
from penstock.dash._alarms import Alarm, FailureWatch, Limits, LimitState
from penstock.dash._charts import ChartPlan
from penstock.dash._quantities import Quantities
from penstock.dash._rows import DeviceRows, EventRow, RecordedRows
from penstock.record.envelopes.history import History
from penstock.record.run_history import Pause
from penstock.record.shown_quantity import Quantity

_RAW_NUMBERS = 16_000_000
"""How many numbers of samples are kept as they are, for all devices: about 130 MB."""
_EVENTS = 1000
_GAP_SECONDS = 60.0
"""How long a failed poll or a missed slot is shown."""
_RECORDED_ALARMS = {"alarm": True, "alarm_ended": False}
"""The kinds of the recorder's events that begin and end an alarm."""


@dataclass(slots=True)
class ShownDevice:
    """One device: its curves, its last row, its counts and alarms.

    ``missed`` counts skipped slots, ``errors`` failed polls. ``error`` is the reason of the last
    failed poll. ``gap_t`` is the time of the last failed poll or missed slot, 0 without one. All
    times are nanoseconds since 1970. ``recorded`` has the alarms that the recorder has raised, by
    their field. ``seen`` has the alarms that a person has acknowledged, by kind and time.
    ``arrived`` is when its last rows came here, on the monotonic clock.
    """

    name: str
    history: History
    unit_id: str = ""
    quantities: Quantities = field(default_factory=Quantities)
    status: str = ""
    error: str | None = None
    errors: int = 0
    missed: int = 0
    gap_t: int = 0
    limits: list[LimitState] = field(default_factory=list)
    recorded: dict[str, Alarm] = field(default_factory=dict)
    failures: FailureWatch = field(default_factory=FailureWatch)
    silent_since: int | None = None
    arrived: int = 0
    seen: set[tuple[str, int]] = field(default_factory=set)

    @property
    def value(self) -> float | None:
        """The last answer of the quantity that is shown by default."""
        shown = self.quantities.shown
        return shown.value if shown is not None else None

    @property
    def setpoint(self) -> float | None:
        """The setpoint of that quantity."""
        setpoint = self.quantities.setpoint
        return setpoint.value if setpoint is not None else None

    @property
    def quantity(self) -> Quantity | None:
        """The quantity that is shown by default."""
        return self.quantities.main


@renamed_fields(silence_s="silence")
@dataclass(slots=True)
class Board:
    """The data of the page. Not thread safe: it belongs to one event loop.

    Attributes:
        title: the title of the page.
        live: whether more rows are expected.
        silence: seconds without a row, while rows are expected, after which a device raises an
            alarm; but never less than five of its periods.
        limits: the limits of each device by its name, one or several.
        charts: charts that the page shows before those of the devices.
        record_event: records an action of a person, by its kind, text and device, as an event of
            the recording; the event's row then arrives by :meth:`add`. None without a recorder: the
            board only logs the action.
        devices: the devices by their names.
        ended: why no more rows are expected, a sentence for people; None while they are.
    """

    title: str
    live: bool = True
    silence: float = 5.0
    limits: Mapping[str, Limits | Sequence[Limits]] = field(default_factory=dict)
    charts: Sequence[ChartPlan] = ()
    record_event: Callable[[str, str, str], None] | None = None
    devices: dict[str, ShownDevice] = field(default_factory=dict)
    ended: str | None = None
    revision: int = 0
    """Grows when there are other devices, quantities or units."""
    events_seen: int = 0
    """The events so far; the log has the newest of them."""
    _description: bytes = b"{}"
    _log: deque[EventRow] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    _fields: dict[str, None] = field(default_factory=dict)

    def expect(self, names: Mapping[str, Quantity | None]) -> None:
        """Show devices before their first sample."""
        for name, quantity in names.items():
            self._device(name, len(names)).quantities.expect(quantity)
        self.revision += 1

    def add(self, table: Any) -> None:
        """Add the rows of a ``pyarrow.Table`` or ``RecordBatch`` of a recording."""
        rows = RecordedRows(table, self._fields)
        if rows.description != self._description:
            self._name_pause(rows)
            self._description = rows.description
            self.revision += 1  # a device that has just come can do more
            self._expect_described()
        count = max(len(rows.names), len(self.devices))
        for found in rows.devices():
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
        found = [device.history for device in self.devices.values() if device.history.rows]
        if not found:
            return None
        return min(one.first or 0 for one in found), max(one.last or 0 for one in found)

    def watch_silence(self, now: int, steady: int | None = None) -> None:
        """Raise and clear the alarms of devices that send nothing; called about once a second.

        ``now`` is in nanoseconds since 1970. ``steady`` is the monotonic clock's time in
        nanoseconds, by default the current one. It decides if the newest row is later than ``now``,
        because the wall clock was set back.
        """
        steady = time.monotonic_ns() if steady is None else steady
        if not self.live or self.ended is not None:
            return
        for device in self.devices.values():
            last = device.history.last
            if last is None:
                continue
            patience = max(self.silence, 5 * device.history.period)
            age = now - last if now >= last else steady - device.arrived
            silent = age > patience * 1e9
            if silent and device.silent_since is None:
                self.log("alarm", f"no sample for {patience:.3g} s", device.name, now)
                device.silent_since = now
            elif device.silent_since is not None and not silent:
                self.log("alarm_cleared", "samples arrive again", device.name, now)
                device.silent_since = None

    def alarms(self, device: ShownDevice, now: int) -> list[Alarm]:
        """The alarms of a device at ``now``."""
        found = [
            Alarm(state.passed, state.text, state.since)
            for state in device.limits
            if state.passed is not None
        ]
        found += device.recorded.values()
        if device.silent_since is not None:
            found.append(Alarm("silent", "no samples arrive", device.silent_since))
        if device.failures.failing:
            text = device.error or "polls fail"
            found.append(Alarm("failing", text, device.failures.since))
        elif self.live and device.gap_t and abs(now - device.gap_t) < _GAP_SECONDS * 1e9:
            found.append(Alarm("gaps", "a poll failed or a slot was missed", device.gap_t))
        known = {(alarm.kind, alarm.since) for alarm in found}
        device.seen &= known
        return [replace(alarm, seen=(alarm.kind, alarm.since) in device.seen) for alarm in found]

    def new_alarms(self, name: str, now: int) -> list[Alarm]:
        """The alarms of a device that no person has acknowledged, without the mild ones."""
        found = self.alarms(self.devices[name], now)
        return [alarm for alarm in found if not (alarm.seen or alarm.is_mild)]

    def acknowledge(self, name: str, now: int) -> bool:
        """Mark all alarms of a device as seen; return whether any was not seen before."""
        new = self.new_alarms(name, now)
        self.devices[name].seen |= {(alarm.kind, alarm.since) for alarm in new}
        for alarm in new:
            if self.record_event is None:
                self.log("alarm_acknowledged", alarm.text, name, now)
            else:
                self.record_event("alarm_acknowledged", alarm.text, name)
        return bool(new)

    def _name_pause(self, rows: RecordedRows) -> None:
        """Log the time between two runs, in which no recorder ran."""
        before, now = (
            json.loads(text).get("run_id") for text in (self._description, rows.description)
        )
        span, first = self.span, rows.first
        if before is None or now in (None, before) or span is None or first is None:
            return
        if first > span[1]:
            pause = Pause(span[1], first)
            self.log("not_recorded", str(pause), t=first)

    def _expect_described(self) -> None:
        # In the order of the configuration: files keep rows in that of arrival, or by device.
        described = json.loads(self._description).get("devices")
        if isinstance(described, dict):
            for name in described:
                self._device(name, len(described))

    def _device(self, name: str, count: int) -> ShownDevice:
        device = self.devices.get(name)
        if device is None:
            history = History(_RAW_NUMBERS // max(1, count))
            device = self.devices[name] = ShownDevice(name, history)
            limits = self.limits.get(name, ())
            judged = (limits,) if isinstance(limits, Limits) else limits
            device.limits = [LimitState(each) for each in judged]
            self.revision += 1
        return device

    def _add_event(self, event: EventRow) -> None:
        self._log.append(event)
        self.events_seen += 1
        device = self.devices.get(event.device)
        if device is None:
            return
        if event.kind == "missed_slots":
            # The sentence of the recorder begins with the number.
            number = event.message.partition(" ")[0]
            device.missed += int(number) if number.isdecimal() else 1
            device.gap_t = max(device.gap_t, event.t)
        elif event.kind in _RECORDED_ALARMS:
            # And that of an alarm with the field.
            name = event.message.partition(" ")[0]
            if _RECORDED_ALARMS[event.kind]:
                device.recorded[name] = Alarm("limit", event.message, event.t)
            else:
                device.recorded.pop(name, None)

    def _add_rows(self, device: ShownDevice, rows: DeviceRows) -> None:
        quantities = device.quantities
        columns, last = {}, {}
        changed = False
        for column in rows.columns:
            self._fields[column.field] = None
            quantity, is_new = quantities.measure(column.field, column.unit)
            changed |= is_new
            columns[quantity.key] = column.values
            if rows.answered is not None:
                last[quantity.key] = _number(column.values[rows.answered])
        if rows.columns and (quantities.choose() or changed):
            self.revision += 1
        device.unit_id = rows.unit_id or device.unit_id
        device.history.append(rows.t, columns)
        device.arrived = time.monotonic_ns()
        device.errors += int(rows.failed.sum())
        device.gap_t = max(device.gap_t, rows.last_error_t)
        device.error = rows.error or device.error
        device.failures.add(rows.failed.tolist(), device.history.period, int(rows.t[-1]))
        if rows.answered is not None:
            # Behind a failed poll the last answer stays, and the tile marks it as old.
            quantities.answer(last)
            device.status = rows.status
        for state in device.limits:
            if state.limits.judged:
                self._judge(device, state, rows)

    def _judge(self, device: ShownDevice, state: LimitState, rows: DeviceRows) -> None:
        quantity = device.quantities.shown
        if state.limits.field is not None:
            quantity = device.quantities.of_field(state.limits.field)
        if quantity is None:
            return
        unit = f" {quantity.unit}" if quantity.unit else ""
        for column in rows.columns:
            if column.field == quantity.field:
                t = int(rows.t[-1])
                for kind, message in state.judge(column.values, unit, t):
                    self.log(kind, message, device.name, t)


def _number(value: float) -> float | None:
    return None if value != value else float(value)
