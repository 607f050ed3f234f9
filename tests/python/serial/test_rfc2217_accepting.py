"""The RFC 2217 server accepts clients again after a lack of descriptors."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from penstock.serial.rfc2217 import Rfc2217Server, _connections
from penstock.serial.testing import serial_port_pair
from tests.python.serial.pty_peer import until

pytestmark = pytest.mark.anyio


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_server_survives_a_lack_of_descriptors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_connections, "_ACCEPT_PAUSE_S", 0.01)
    near, far = serial_port_pair()
    async with (
        near,
        far,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(Rfc2217Server(near).serve, listener)
        await anyio.wait_all_tasks_blocked()
        address = listener.extra(anyio.abc.SocketAttribute.local_address)
        with socket.socket() as client:
            with no_descriptor_left():
                client.setblocking(False)
                client.connect_ex(address)
                await until(lambda: "no connection can be accepted" in caplog.text)
            client.setblocking(True)
            client.settimeout(60)
            greeting = await anyio.to_thread.run_sync(client.recv, 1)
            assert greeting == b"\xff"  # telnet's IAC: the server negotiates
        tasks.cancel_scope.cancel()
