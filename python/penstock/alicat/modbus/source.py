"""Named Modbus devices as the source of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from penstock.alicat._bus.polling import poll_in_turn
from penstock.alicat._bus.waiting import ANYIO
from penstock.alicat._frames.reading import FieldSchema, Reading
from penstock.alicat._instrument.result import DeviceResult
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.modbus.client import ModbusClient
from penstock.alicat.modbus.device import ModbusFlowMeter

__all__ = ["ModbusSource"]


class ModbusSource:
    """Polls named Modbus devices: those of one client in turn, several clients side by side.

    A source for :func:`penstock.record.record`. It does not own the devices.

    Args:
        devices: The open devices by name.
        source_id: Identifies this source in a recording.

    Raises:
        AlicatValidationError: there is no device.
    """

    def __init__(
        self, devices: Mapping[str, ModbusFlowMeter], *, source_id: str = "modbus"
    ) -> None:
        if not devices:
            raise AlicatValidationError("a source needs at least one device")
        self._devices = dict(devices)
        self._source_id = source_id

    @property
    def source_id(self) -> str:
        """Identifies this source in a recording."""
        return self._source_id

    @property
    def names(self) -> tuple[str, ...]:
        """The devices' names, in the order in which they were given."""
        return tuple(self._devices)

    @property
    def revision(self) -> int:
        """Always 0: neither fields nor facts change."""
        return 0

    def field_schemas(self) -> Mapping[str, tuple[FieldSchema, ...]]:
        """The fields of every device's readings, by name."""
        return {name: device.field_schema() for name, device in self._devices.items()}

    def device_facts(self, name: str) -> Mapping[str, str]:
        """What identifies a device: see :meth:`ModbusFlowMeter.facts`.

        Raises:
            AlicatValidationError: there is no such device.
        """
        return self._device(name).facts()

    def poll_groups(self) -> tuple[tuple[str, ...], ...]:
        """The names, grouped by the line that they share; groups may be polled side by side."""
        return tuple(tuple(name for name, _ in group) for group in self._groups(self.names))

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, DeviceResult[Reading]]:
        """Poll the named devices, or all. A failure is a result with its error.

        Raises:
            AlicatValidationError: there is no such device; nothing was sent.
        """
        wanted = self.names if names is None else tuple(dict.fromkeys(names))
        results: dict[str, DeviceResult[Reading]] = {}
        groups = self._groups(wanted)
        if len(groups) == 1:
            await poll_in_turn(groups[0], results)
        else:
            await ANYIO.together([partial(poll_in_turn, group, results) for group in groups])
        return {name: results[name] for name in wanted}

    def _device(self, name: str) -> ModbusFlowMeter:
        device = self._devices.get(name)
        if device is None:
            raise AlicatValidationError(
                f"no device is named {name!r}; there are {', '.join(self._devices)}"
            )
        return device

    def _groups(self, names: Sequence[str]) -> list[list[tuple[str, ModbusFlowMeter]]]:
        groups: dict[ModbusClient, list[tuple[str, ModbusFlowMeter]]] = {}
        for name in names:
            device = self._device(name)
            groups.setdefault(device.client, []).append((name, device))
        return list(groups.values())
