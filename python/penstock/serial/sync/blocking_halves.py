"""The asynchronous port's two halves, made to block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import TypedAttributeProvider

from penstock.serial.backend import SerialBackend
from penstock.serial.portinfo import PortInfo
from penstock.serial.receive_half import ReceiveHalf
from penstock.serial.send_half import SendHalf
from penstock.serial.sync.poll_readiness import PollReadiness

__all__ = ["BlockingHalves"]

T = TypeVar("T")


class BlockingHalves(ReceiveHalf, SendHalf, TypedAttributeProvider):
    """The asynchronous port's two halves, on a waiting room that blocks."""

    def __init__(self, device: SerialBackend, port_info: PortInfo | None) -> None:
        super().__init__(device, port_info)
        self._awaits_answer = False
        self.renew_room()

    def note_question(self) -> None:
        """Have the next receive wait before it reads: an answer is still to come.

        A read that finds nothing costs more than a poll: an exception is made of it. Of a device
        that keeps bytes of its own a poll would not tell. On event loops it gained nothing: the
        turn that a send gives away is often long enough for the answer to be there.
        """
        self._awaits_answer = self._device.is_plain_descriptor

    def takes_question(self) -> bool:
        """Return whether the receive that begins is to wait first: once for each question."""
        asked, self._awaits_answer = self._awaits_answer, False
        return asked and not self._closed

    async def _attempt(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        if self.takes_question():
            return await self._park(attempt, keep)
        return await super()._attempt(attempt, keep)

    def renew_room(self) -> None:
        self.room = PollReadiness(self._device.fileno())
        self._readiness = self.room
        self._yield = self.room.checkpoint
