"""The sending half of a port: bytes to the driver, to the wire, and a break."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from penstock.serial.buffers import BytesLike
from penstock.serial.config import RS485Config, check_break
from penstock.serial.drain import until_buffer_is_empty, until_on_the_wire
from penstock.serial.exceptions import closed_error
from penstock.serial.port_state import PortState

__all__ = ["SendHalf", "as_bytes"]


class SendHalf(PortState):
    """What :class:`SerialPort` sends with. One task at a time."""

    _break_interrupt: anyio.Event | None = None

    async def send(self, item: bytes) -> None:
        """Hand all of *item* to the driver; returns before the last bit is on the wire.

        Cancelled before the call, it writes nothing; cancelled while it waits for room, an
        unknown part has been written. With RS-485 switched in software it returns after the last
        bit, with the line released; cancelled, it discards what is unsent and releases the line.
        """
        if type(item) is not bytes:
            item = as_bytes(item)
        if self._sending:
            raise anyio.BusyResourceError("sending to")
        self._sending = True
        try:
            await checkpoint_if_cancelled()
            if not item:
                self._check_usable()
                await self._yield()
            elif self._switched_by is None:
                await self._send_all(item)
            else:
                async with self._line_taken(self._switched_by):
                    await self._send_all(item)
                    with self._noticing_disconnect():
                        await until_on_the_wire(self.output_waiting, self._device, self._until_done)
        finally:
            self._sending = False

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
                await until_buffer_is_empty(self.output_waiting, self._device.config)

    async def drain_exact(self) -> None:
        """Wait until the last bit is on the wire. Can be cancelled at any time."""
        with self._sole_sender():
            self._check_usable()
            with self._noticing_disconnect():
                await until_on_the_wire(self.output_waiting, self._device, self._until_done)

    async def send_break(self, duration: float = 0.25) -> None:
        """Hold the line in the break state for *duration* seconds.

        The break ends also when this is cancelled, and when the port is closed meanwhile (then
        with :class:`SerialClosedError`).
        """
        check_break(duration)
        with self._sole_sender():
            interrupt = self._break_interrupt = anyio.Event()
            await self._change(
                self._device.set_break, True, undo=lambda _: self._device.set_break(False)
            )
            try:
                with anyio.move_on_after(duration):
                    await interrupt.wait()
            finally:
                self._break_interrupt = None
                if not self._closed:  # else closing has ended it
                    await self._undo_change(self._device.set_break, False)
            if self._closed:
                raise closed_error(self.path)

    async def _send_all(self, item: bytes | memoryview) -> None:
        sent = self._write_now(item)
        if sent == len(item):
            await self._yield()
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
            await anyio.sleep(mode.delay_before_send)
            yield
            sent = True
            await anyio.sleep(mode.delay_after_send)
        finally:
            if not (self._closed or self._gone):
                if not sent:
                    with self._noticing_disconnect():
                        self._device.discard_output()  # else it goes out on a line of others
                # Settings may have changed meanwhile: the line rests at the present level.
                rests = self._switched_by or mode
                await self._undo_change(self._device.set_control_lines, rests.rts_after_send, None)


def as_bytes(data: BytesLike) -> bytes:
    """Return what *data* holds, strided or not."""
    # A copy, also for the memoryview of a bytearray: the caller may change it, or be unable to
    # resize it, while the port waits for room.
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(_not_bytes(data)) from None
    return view.tobytes()


def _not_bytes(data: object) -> str:
    if isinstance(data, str):
        return f"a port sends bytes, not text; encode it: {data!r}.encode()"
    return f"a port sends bytes, such as b'...', not {data!r}"
