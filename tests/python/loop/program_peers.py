"""The other ends of the connections of a random program: plain sockets, pipes, TLS."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from typing import TYPE_CHECKING

from .certificates import client_context

if TYPE_CHECKING:
    from .event_sequences import Connection


class SocketPeer:
    """The other end of a plain connection: a socket that executes operations."""

    def __init__(self, connection: Connection, sock: socket.socket) -> None:
        self.connection = connection
        self.sock = sock

    def send(self, data: bytes) -> int:
        with contextlib.suppress(OSError):  # closed, at either end
            return self.sock.send(data)
        return 0

    def receive(self, count: int) -> None:
        with contextlib.suppress(OSError):  # no data, or closed
            while count > 0 and (data := self.sock.recv(count)):
                self.connection.peer_got(data)
                count -= len(data)

    def end(self, how: str) -> None:
        if how == "shutdown":
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
        else:
            self.sock.close()

    def close(self) -> None:
        self.sock.close()


class PipePeer:
    """The other end of a pipe."""

    def __init__(self, connection: Connection, fd: int) -> None:
        os.set_blocking(fd, False)
        self.connection = connection
        self.fd = fd

    def send(self, data: bytes) -> int:
        if self.fd >= 0 and self.connection.program.transport == "read pipe":
            with contextlib.suppress(OSError):
                return os.write(self.fd, data)
        return 0

    def receive(self, count: int) -> None:
        with contextlib.suppress(OSError):
            while count > 0 and (data := os.read(self.fd, count)):
                self.connection.peer_got(data)
                count -= len(data)

    def end(self, how: str) -> None:
        self.close()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class TlsPeer:
    """The other end of a TLS connection: it receives continuously.

    It does not use the loop's TLS. Loops end a connection differently if data arrives after
    close_notify, and each must meet the same peer.
    """

    def __init__(self, connection: Connection, sock: socket.socket) -> None:
        self.connection = connection
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context().wrap_bio(
            self.incoming, self.outgoing, server_hostname="localhost"
        )
        self.closing = False
        self.loop = connection.execution.loop
        self.connected = self.loop.create_future()
        self.loop.add_reader(sock, self.receive_records)

    async def connect(self) -> None:
        self.continue_handshake()
        await self.connected

    def continue_handshake(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
            self.connected.set_result(None)
        self.send_records()

    def receive_records(self) -> None:
        try:
            records = self.sock.recv(1 << 20)
        except ConnectionError:
            records = b""
        if not records:
            self.close()
            return
        self.incoming.write(records)
        if not self.connected.done():
            self.continue_handshake()
        try:
            while data := self.tls.read(1 << 20):
                self.connection.peer_got(data)
        except ssl.SSLWantReadError:
            return
        except ssl.SSLZeroReturnError:
            self.close()
            return
        self.end("close")
        self.close()

    def send_records(self) -> None:
        if records := self.outgoing.read():
            with contextlib.suppress(ConnectionError):
                assert self.sock.send(records) == len(records)

    def send(self, data: bytes) -> int:
        if self.closing:
            return 0
        self.tls.write(data)
        self.send_records()
        return len(data)

    def receive(self, count: int) -> None:
        """Does nothing: it receives by itself."""

    def end(self, how: str) -> None:
        """Send close_notify and wait for the other side's; "drop" and "abort" do not wait."""
        if not self.closing and how != "abort":
            self.closing = True
            with contextlib.suppress(ssl.SSLError):  # it waits for the other side's
                self.tls.unwrap()
            self.send_records()
        if how != "close":
            self.close()

    def close(self) -> None:
        self.closing = True
        if self.sock.fileno() >= 0:
            if not self.loop.is_closed():
                self.loop.remove_reader(self.sock)
            self.sock.close()
