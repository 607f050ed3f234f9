"""An instrument that sends its data frames by itself, read without an event loop."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.alicat._instrument.streaming import StreamedFrames
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.sync.waiting import run_without_loop

if TYPE_CHECKING:
    from penstock.alicat._frames.reading import Reading
    from penstock.alicat._instrument.session import Session

__all__ = ["SyncStreamingSession"]


class SyncStreamingSession:
    """The readings of an instrument that streams. Made by :meth:`SyncDevice.stream`.

    ::

        with device.stream(rate_hz=20) as stream:
            for reading in stream:
                print(reading.values["Mass_Flow"])

    Entering starts the stream, leaving stops it. Frames are read as they are asked for: a program
    that does not keep up fills the driver's buffer, which then loses bytes.
    """

    def __init__(
        self, session: Session, *, rate_hz: float | None = None, strict: bool = False
    ) -> None:
        self._frames = StreamedFrames(session, rate_hz=rate_hz, strict=strict)
        self._open = False

    @property
    def skipped_frames(self) -> int:
        """Lines that were no frame of this instrument."""
        return self._frames.skipped

    def __enter__(self) -> Self:
        run_without_loop(self._frames.start())
        self._open = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open = False
        run_without_loop(self._frames.stop())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Reading:
        if not self._open:
            raise AlicatValidationError("a stream is read within its context: enter it first")
        return run_without_loop(self._frames.next())
