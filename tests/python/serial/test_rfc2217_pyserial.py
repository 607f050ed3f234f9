"""RFC 2217: Penstock's client and server, each with pyserial's counterpart."""

from __future__ import annotations

import socket
import termios
import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest
import serial
import serial.rfc2217

from penstock.serial import Parity, SerialConfig, open_serial_port
from penstock.serial.testing import PtyBench
from tests.python.serial.rfc2217_serving import EVERY_BYTE, served
from tests.python.serial.test_mock_ports import receive_exactly

pytestmark = pytest.mark.anyio


@pytest.mark.filterwarnings("ignore:set(Daemon|Name):DeprecationWarning")  # of pyserial 3.5
async def test_pyserials_client_works_with_this_server() -> None:
    with PtyBench() as bench:
        await use_pyserials_client(bench)


async def use_pyserials_client(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(bench.b.path) as device:

        def open_pyserial() -> Any:
            return serial.serial_for_url(url, baudrate=57_600, timeout=30, parity="E", bytesize=7)

        client = await anyio.to_thread.run_sync(open_pyserial)
        try:
            assert termios.tcgetattr(bench.a._follower)[4] == termios.B57600
            await anyio.to_thread.run_sync(client.write, EVERY_BYTE)
            assert await receive_exactly(device, len(EVERY_BYTE)) == EVERY_BYTE
            await device.send(EVERY_BYTE)
            read = await anyio.to_thread.run_sync(client.read, len(EVERY_BYTE))
            assert read == EVERY_BYTE

            def use_lines() -> tuple[bool, bool]:
                client.rts = False
                client.dtr = True
                client.reset_input_buffer()
                client.reset_output_buffer()
                return client.cts, client.cd

            await device.set_control_lines(rts=True)
            await anyio.to_thread.run_sync(use_lines)
            lines = await device.modem_lines()
            assert (lines.cts, lines.dsr) == (False, True)
        finally:
            await anyio.to_thread.run_sync(client.close)


class PyserialServer:
    """pyserial's PortManager on its loop:// port, for one client."""

    def __init__(self) -> None:
        self.port = serial.serial_for_url("loop://", timeout=0.01)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"rfc2217://127.0.0.1:{self.listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._socket, _ = self.listener.accept()
        self._lock = threading.Lock()
        manager = serial.rfc2217.PortManager(self.port, self)
        reader = threading.Thread(target=self._from_port, args=(manager,), daemon=True)
        reader.start()
        with self._socket:
            while data := self._socket.recv(1024):
                self.port.write(b"".join(manager.filter(data)))
        self.port.close()
        reader.join()

    def _from_port(self, manager: Any) -> None:
        while self.port.is_open:
            try:
                data = self.port.read(self.port.in_waiting or 1)
                if data:
                    self.write(b"".join(manager.escape(data)))
                manager.check_modem_lines()
            except (OSError, serial.SerialException):
                return

    def write(self, data: bytes) -> None:
        with self._lock:
            self._socket.sendall(data)

    def __enter__(self) -> PyserialServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.listener.close()
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("options", ["", "?ign_set_control&poll_modem&logging=debug"])
async def test_this_client_works_with_pyserials_server(options: str) -> None:
    with PyserialServer() as server:
        async with await open_serial_port(
            server.url + options, SerialConfig(baudrate=19_200, parity=Parity.ODD)
        ) as remote:
            assert (server.port.baudrate, server.port.parity) == (19_200, "O")
            await remote.send(EVERY_BYTE)
            assert await receive_exactly(remote, len(EVERY_BYTE)) == EVERY_BYTE
            await remote.set_control_lines(rts=False, dtr=True)
            await remote.configure(SerialConfig(baudrate=300))
            assert server.port.baudrate == 300
            assert server.port.rts is False
            with anyio.fail_after(30):
                while (await remote.modem_lines()).cts:
                    await anyio.lowlevel.checkpoint()
            await remote.reset_input_buffer()
            await remote.reset_output_buffer()
            await remote.send(b"after")
            assert await receive_exactly(remote, 5) == b"after"
