"""A board to serve, and what a client gets of its server."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from penstock.dash import Board, ControlError
from tests.python.dash.tables import table, wave

__all__ = ["FakeControls", "get", "recorded", "refusal"]


class FakeControls:
    """Controls that keep what was asked of them."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, object]] = []
        self.hold: anyio.Event | None = None

    def abilities(self, device: str) -> Sequence[str]:
        return ["setpoint", "gas"]

    async def set_setpoint(self, device: str, value: float) -> str:
        if value < 0:
            raise ControlError(f"{device} takes no negative setpoint")
        if self.hold is not None:
            await self.hold.wait()
        self.changes.append((device, value))
        return f"{device} has {value:g}"

    async def set_gas(self, device: str, gas: str) -> str:
        self.changes.append((device, gas))
        return f"{device} has {gas}"

    async def gases(self, device: str) -> Sequence[str]:
        return ["Ar", "N2"]


def get(served: Any, path: str = "/", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    try:
        skip_host = "Host" in headers
        connection.putrequest("GET", path, skip_host=skip_host, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, names, answer.read()
    finally:
        connection.close()


def refusal(browser: Any) -> tuple[int, str]:
    """The code and the reason with which the server closes a connection."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            browser.receive()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


def recorded(*devices: str, count: int = 200) -> Board:
    board = Board("run", live=False)
    board.add(table([row for device in devices for row in wave(device, count)]))
    return board
