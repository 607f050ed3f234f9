"""The sending half: bytes to the driver, waiting until they have left the machine, and a break."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from penstock.serial._devices.backend import SerialBackend
from penstock.serial._port.state import PortState
from penstock.serial._port.waiter import Waiter, wait_for_ioctl
from penstock.serial._values import BytesLike
from penstock.serial.config import Parity, RS485Config, SerialConfig, StopBits, check_break

CLOSE_LINGER_S = 30.0  # what the kernel itself waits for unsent output (closing_wait)
_SHORTEST_NAP_S = 0.001
_LONGEST_NAP_S = 0.01


async def wait_until_buffer_is_empty(
    pending: Callable[[], int], config: SerialConfig, waiter: Waiter
) -> None:
    """Wait until ``pending``, the driver's count, is 0. The chip's FIFO may still hold bytes.

    The kernel has no readiness event for this. So the count is read again after a sleep: as long
    as the rest needs at the configured rate, at most 10 ms.
    """
    await waiter.checkpoint()
    while count := pending():
        await waiter.sleep(poll_interval(count, config))


async def wait_until_on_the_wire(
    pending: Callable[[], int], device: SerialBackend, waiter: Waiter
) -> None:
    """Wait until ``pending`` is 0 and the chip of ``device`` has sent the last bit."""
    await wait_until_buffer_is_empty(pending, device.config, waiter)
    while (empty := await waiter.call(device.transmitter_is_empty)) is False:
        await waiter.sleep(poll_interval(1, device.config))
    if empty is None:
        # This driver does not report it; tcdrain waits for it.
        draining = device.begin_drain()
        try:
            while not await wait_for_ioctl(waiter, draining, device.path):
                pass
        finally:
            draining.cancel()


def character_bits(config: SerialConfig) -> float:
    """Return how many bit times one character takes: start, data, parity and stop bits."""
    parity = 0 if config.parity is Parity.NONE else 1
    return 1 + int(config.byte_size) + parity + float(StopBits(config.stop_bits))


def poll_interval(pending: int, config: SerialConfig) -> float:
    """Return how long to sleep before a count of ``pending`` bytes is read again."""
    needed = pending * character_bits(config) / config.baudrate
    return min(max(needed, _SHORTEST_NAP_S), _LONGEST_NAP_S)


class SendHalf(PortState):
    """The sending methods of :class:`SerialPort`. One task at a time."""

    async def send(self, item: bytes) -> None:
        """Hand all of ``item`` to the driver; returns before the last bit is on the wire.

        With RS-485 switched in software, returns after the last bit, with the line released.

        Cancellation: other tasks run before the first write. A cancellation until then writes
        nothing; a later one may have written a part. With RS-485 switched in software, it discards
        unsent bytes and releases the line.
        """
        if type(item) is not bytes:
            item = as_bytes(item)
        if self._sending:
            raise anyio.BusyResourceError("sending to")
        self._sending = True
        try:
            # The turn of the other tasks comes before the write, not after it: a caller that
            # receives the answer next then has little left to do while the answer is on its way.
            self._check_usable()
            await self._yield()
            if not item:
                return
            if self._switched_by is None:
                await self._send_all(item)
            else:
                await self._send_switched(item, self._switched_by)
        finally:
            self._sending = False

    def send_nowait(self, item: bytes) -> int:
        """Hand as much of ``item`` to the driver as it takes at once; return how many bytes.

        With RS-485 switched in software this returns 0, because such a send has to wait.

        Raises:
            SerialDisconnectedError: The device has gone away.
            SerialClosedError: The port is closed.
            anyio.BusyResourceError: Another task sends.
        """
        if self._sending:
            raise anyio.BusyResourceError("sending to")
        self._check_usable()
        if self._switched_by is not None or not item:
            return 0
        return self._write_now(item)

    async def send_buffer(self, data: BytesLike) -> None:
        """Send any bytes-like object: as :meth:`send`. Strided views are copied first."""
        await self.send(as_bytes(data))

    async def send_eof(self) -> None:
        """Wait until the output buffer is empty. A serial line has no end to tell the peer."""
        if not self._closed:
            await self.drain()

    def output_waiting(self) -> int:
        """Return how many bytes wait in the driver's buffer to be sent."""
        self._check_usable()
        with self._noticing_disconnect():
            return self._device.output_waiting()

    async def drain(self) -> None:
        """Wait until the driver's buffer is empty; the chip's FIFO may still hold bytes."""
        with self._sole_sender():
            self._check_usable()
            with self._noticing_disconnect():
                await wait_until_buffer_is_empty(
                    self.output_waiting, self._device.config, self._waiter
                )

    async def drain_exact(self) -> None:
        """Wait until the last bit is on the wire. Can be cancelled at any time."""
        with self._sole_sender():
            self._check_usable()
            with self._noticing_disconnect():
                await wait_until_on_the_wire(self.output_waiting, self._device, self._waiter)

    async def send_break(self, duration: float = 0.25) -> None:
        """Hold the line in the break state for ``duration`` seconds.

        The break also ends if this is cancelled, and if the port is closed, which raises
        :class:`SerialClosedError`.
        """
        check_break(duration)
        with self._sole_sender():
            await self._change(
                self._device.set_break, True, undo=lambda _: self._device.set_break(False)
            )
            try:
                with self._noticing_disconnect():
                    await self._waiter.sleep(duration)
            finally:
                if not self._closed:  # else closing has ended it
                    await self._undo_change(self._device.set_break, False)

    async def _send_empty(self) -> None:
        self._check_usable()
        await self._yield()

    async def _send_switched(self, item: bytes, mode: RS485Config) -> None:
        async with self._line_taken(mode):
            await self._send_all(item)
            with self._noticing_disconnect():
                await wait_until_on_the_wire(self.output_waiting, self._device, self._waiter)

    async def _send_all(self, item: bytes | memoryview) -> None:
        sent = self._write_now(item)
        if sent == len(item):
            self.expect_answer()
            return
        try:
            await self._waiting_room().write(self._write, memoryview(item)[sent:])
        except anyio.ClosedResourceError as exc:
            self._fail_closed(exc)
        except OSError as exc:
            self._fail(exc)

    def _write_now(self, item: bytes | memoryview) -> int:
        """Write what there is room for; return how much that was."""
        try:
            return self._write(item)
        except BlockingIOError:
            return 0
        except OSError as exc:
            self._fail(exc)

    @asynccontextmanager
    async def _line_taken(self, mode: RS485Config) -> AsyncIterator[None]:
        sent = False
        try:
            await self._change(self._device.set_control_lines, mode.rts_on_send, None)
            with self._noticing_disconnect():
                await self._waiter.sleep(mode.delay_before_send)
            yield
            sent = True
            with self._noticing_disconnect():
                await self._waiter.sleep(mode.delay_after_send)
        finally:
            if not (self._closed or self._gone):
                if not sent:
                    with self._noticing_disconnect():
                        self._device.discard_output()  # the line is for others from here on
                # Settings may have changed meanwhile: the idle level is the present one.
                idle = self._switched_by or mode
                await self._undo_change(self._device.set_control_lines, idle.rts_after_send, None)


def as_bytes(data: BytesLike) -> bytes:
    """Return the content of ``data``, strided or not."""
    # A copy, even of a memoryview of a bytearray. Otherwise the caller could change it, or could
    # not resize it, while the port waits for room.
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(_not_bytes(data)) from None
    return view.tobytes()


def _not_bytes(data: object) -> str:
    if isinstance(data, str):
        return f"a port sends bytes, not text; encode it: {data!r}.encode()"
    return f"a port sends bytes, such as b'...', not {data!r}"
