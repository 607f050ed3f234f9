"""A recorder's source that also updates the live table with each answer.

It has all instruments of the plan from the beginning. One that has not answered yet fails, without
a question on its bus, until :mod:`penstock.cli._recording.instruments` has opened it.

The recorder passes batches on at the speed of the disk, but a live table needs the newest value. So
the values are taken where the answers arrive, and the counts where the rows are counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from penstock.alicat import AlicatManager, DeviceResult, EventStream, FieldSchema, Reading
from penstock.cli._errors import one_line
from penstock.cli._recording.alarms import Alarms
from penstock.cli._recording.instruments import AbsentError, groups_by_port
from penstock.cli._recording.progress import DeviceProgress, Progress


class WatchedSource:
    """A :class:`penstock.record.PollSource` that passes ``manager`` on and keeps ``progress``."""

    def __init__(
        self,
        manager: AlicatManager,
        progress: Progress,
        absent: Mapping[str, AbsentError],
        alarms: Alarms,
    ) -> None:
        self._manager = manager
        self._progress = progress
        self._absent = absent
        self._alarms = alarms
        self._plans = {name: device.plan for name, device in progress.devices.items()}
        self._start_ns: int | None = None

    @property
    def source_id(self) -> str:
        return self._manager.source_id

    @property
    def revision(self) -> int:
        return self._manager.revision

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._plans)

    def poll_groups(self) -> Sequence[Sequence[str]]:
        return [[each.name for each in group] for group in groups_by_port(self._plans.values())]

    def field_schemas(self) -> Mapping[str, Sequence[FieldSchema]]:
        return self._manager.field_schemas()

    def device_facts(self, name: str) -> Mapping[str, str]:
        if name in self._absent:
            return {"unit_id": self._plans[name].unit_id}
        return self._manager.device_facts(name)

    def rates(self) -> Mapping[str, float]:
        rates = {name: plan.rate_hz for name, plan in self._plans.items()}
        return {name: rate for name, rate in rates.items() if rate is not None}

    def events(self) -> AbstractAsyncContextManager[EventStream]:
        return self._manager.events()

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, DeviceResult[Reading]]:
        wanted = self.names if names is None else names
        if not self._absent:
            return await self._poll(wanted)
        there = [name for name in wanted if name not in self._absent]
        results = dict(await self._poll(there)) if there else {}
        for name in wanted:
            # Not among the results: it may have joined meanwhile.
            if name not in results:
                results[name] = self._absence(name)
        return results

    def _absence(self, name: str) -> DeviceResult[Reading]:
        now, unix = time.monotonic_ns(), time.time_ns()
        error = self._absent.get(name) or AbsentError("it was not there at this slot")
        self._progress.devices[name].failed(at=self._since_start(now), error=one_line(error))
        self._progress.devices[name].absent = True
        return DeviceResult[Reading].failure(
            error, requested_monotonic_ns=now, requested_unix_ns=unix
        )

    async def _poll(self, names: Sequence[str]) -> Mapping[str, DeviceResult[Reading]]:
        asked = time.monotonic_ns()
        try:
            results = await self._manager.poll(names)
        except Exception as error:
            # The recorder turns the error into rows; the table must not show old values as current.
            for name in names:
                device = self._progress.devices[name]
                device.failed(at=self._since_start(asked), error=one_line(error))
            raise
        for name, result in results.items():
            self._note(self._progress.devices[name], result)
            self._alarms.judge(name, result)
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
