"""What the page of a recording on disk passes on to the recorder that makes it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread

from penstock.cli._errors import CommandError, one_line
from penstock.cli._recording.control_socket import SOCKET_NAME
from penstock.cli._recording.note_command import ask_recorder, folder_of
from penstock.dash import ControlError

_LEVELS = 5
"""Folders between a history and its newest run, as ``penstock.record.open`` looks for them."""
_AUTHOR = "the page"


class RecorderControls:
    """Controls of a page that has files alone: alarms are acknowledged at their recorder.

    Args:
        recording: A recording, or a folder with the runs of a recorder, of which the newest counts.
    """

    def __init__(self, recording: Path) -> None:
        self._recording = recording

    def abilities(self, device: str) -> Sequence[str]:
        return []

    async def set_setpoint(self, device: str, value: float) -> str:
        raise _no_instruments()

    async def set_gas(self, device: str, gas: str) -> str:
        raise _no_instruments()

    async def gases(self, device: str) -> Sequence[str]:
        raise _no_instruments()

    async def acknowledge(self, device: str, alarms: Sequence[str]) -> None:
        await anyio.to_thread.run_sync(partial(self._acknowledge, device, list(alarms)))

    def _acknowledge(self, device: str, alarms: list[str]) -> None:
        request = {"acknowledged": alarms, "device": device, "author": _AUTHOR}
        try:
            answer = ask_recorder(self._folder(), request, what="the event of it")
        except CommandError as error:
            raise ControlError(one_line(error)) from error
        if "done" not in answer:
            raise ControlError(f"the recorder refused it: {answer.get('refused')}")

    def _folder(self) -> Path:
        folder = folder_of(self._recording)
        levels = range(_LEVELS + 1) if folder == self._recording else range(1)
        sockets = [
            path
            for level in levels
            for path in folder.glob("/".join(["*"] * level + [SOCKET_NAME]))
        ]
        return max(sockets, key=lambda path: path.stat().st_mtime_ns).parent if sockets else folder


def _no_instruments() -> ControlError:
    return ControlError("this page shows a recording; change instruments at their recorder")
