"""Serial ports that are plugged in and pulled out while a program runs."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import anyio
import anyio.to_thread

from penstock.serial.discovery import native_ports, port_info_for
from penstock.serial.portinfo import PortInfo
from penstock.serial.uevents import NetlinkUevents, parse_uevent

__all__ = ["PortEvent", "UeventSource", "watch_serial_ports", "watch_trees"]

# Where messages do not come (a container with a network of its own) or were lost, ports are found
# by looking. Reading sysfs takes a millisecond.
_LOOK_EVERY_S = 5.0
_LOOK_WITHOUT_EVENTS_S = 1.0


@dataclass(frozen=True, slots=True)
class PortEvent:
    """A port that was plugged in (``added``) or pulled out (``removed``)."""

    action: Literal["added", "removed"]
    port: PortInfo


class UeventSource(Protocol):
    """Where the kernel's messages come from."""

    async def receive(self) -> bytes: ...
    def close(self) -> None: ...


def watch_serial_ports(*, existing: bool = False) -> AsyncGenerator[PortEvent, None]:
    """Yield an event for each port that comes or goes from now on, until the iterator is closed.

    With *existing*, the ports that are there already come first, as ``added``. No port is
    reported twice, and none that :func:`list_serial_ports` would not list.

    Close the iterator (``contextlib.aclosing``) where you leave it before its end.
    """
    return watch_trees(existing=existing)


async def watch_trees(
    *,
    existing: bool = False,
    source: Callable[[], UeventSource] = NetlinkUevents,
    sysfs: Path = Path("/sys/class/tty"),
    dev: Path = Path("/dev"),
) -> AsyncGenerator[PortEvent, None]:
    """As :func:`watch_serial_ports`, over any trees like /sys and /dev, with any messages."""
    watcher = _Watcher(source, sysfs, dev)
    try:
        await watcher.start()
        if existing:
            for port in list(watcher.known.values()):
                yield PortEvent("added", port)
        while True:
            for event in await watcher.next_events():
                yield event
    finally:
        watcher.close()


class _Watcher:
    def __init__(self, source: Callable[[], UeventSource], sysfs: Path, dev: Path) -> None:
        self._open_source = source
        self._source: UeventSource | None = None
        self._sysfs = sysfs
        self._dev = dev
        self.known: dict[str, PortInfo] = {}

    async def start(self) -> None:
        # Listening first: what comes between the two is then known or announced, or both.
        try:
            self._source = self._open_source()
        except OSError:
            self._source = None
        self.known = await self._scan()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    async def next_events(self) -> list[PortEvent]:
        """Wait for a message, or for the time to look, and return what it means; often nothing."""
        source = self._source
        if source is None:
            await anyio.sleep(_LOOK_WITHOUT_EVENTS_S)
            return await self._look()
        message: bytes | None = None
        with anyio.move_on_after(_LOOK_EVERY_S):
            try:
                message = await source.receive()
            except OSError as exc:
                if exc.errno != errno.ENOBUFS:
                    source.close()
                    self._source = None
        return await self._look() if message is None else await self._heed(message)

    async def _heed(self, message: bytes) -> list[PortEvent]:
        event = parse_uevent(message)
        if event is None or event.subsystem != "tty" or event.device_name is None:
            return []
        device = str(self._dev / event.device_name)
        if event.action == "remove":
            # Not looked up: the kernel says so before the port has left sysfs.
            gone = self.known.pop(device, None)
            return [] if gone is None else [PortEvent("removed", gone)]
        if event.action != "add":
            return []
        port = await anyio.to_thread.run_sync(port_info_for, device, self._sysfs, self._dev)
        before = self.known.pop(device, None)
        events = []
        if port is not None:
            self.known[device] = port
        if before is not None and before != port:
            events.append(PortEvent("removed", before))
        if port is not None and before != port:
            events.append(PortEvent("added", port))
        return events

    async def _look(self) -> list[PortEvent]:
        before, self.known = self.known, await self._scan()
        events = [
            PortEvent("removed", port)
            for device, port in before.items()
            if self.known.get(device) != port
        ]
        events += [
            PortEvent("added", port)
            for device, port in self.known.items()
            if before.get(device) != port
        ]
        return events

    async def _scan(self) -> dict[str, PortInfo]:
        ports = await anyio.to_thread.run_sync(native_ports, self._sysfs, self._dev)
        return {port.device: port for port in ports}
