"""A board to serve, and what a client gets of its server."""

from __future__ import annotations

import http.client
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from penstock.dash import Board
from tests.python.dash.tables import table, wave

__all__ = ["get", "recorded", "refusal"]


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
