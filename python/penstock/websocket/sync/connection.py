"""A connection whose calls block."""

from __future__ import annotations

import asyncio
import os
import socket as socket_module
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar, overload

from penstock.websocket import connection as asynchronous
from penstock.websocket.exceptions import ConnectionClosedOK
from penstock.websocket.http11 import Request, Response
from penstock.websocket.protocol import State
from penstock.websocket.sync.background import call, loop_of_this_process
from penstock.websocket.typing import Data, DataLike, LoggerLike

__all__ = ["Connection"]

T = TypeVar("T")


class Connection:
    """An open connection. Its methods may be called by several threads.

    It belongs to the process that has opened it: in the child of a fork, its calls raise
    RuntimeError.

    Attributes:
        id: A random UUID, for logs.
    """

    def __init__(self, connection: asynchronous.Connection) -> None:
        self._connection = connection
        self._process = os.getpid()
        self.id: uuid.UUID = connection.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state.name} {self.remote_address}>"

    @property
    def request(self) -> Request | None:
        """The client's handshake request."""
        return self._connection.request

    @property
    def response(self) -> Response | None:
        """The server's handshake response."""
        return self._connection.response

    @property
    def logger(self) -> LoggerLike:
        """The logger."""
        return self._connection.logger

    @property
    def local_address(self) -> Any:
        """The socket's own address: (host, port) for IP."""
        return self._connection.local_address

    @property
    def remote_address(self) -> Any:
        """The peer's address: (host, port) for IP."""
        return self._connection.remote_address

    @property
    def socket(self) -> socket_module.socket:
        """The socket, for its options. Only the loop reads and writes."""
        assert self._connection.transport is not None
        sock: socket_module.socket = self._connection.transport.get_extra_info("socket")
        return sock

    @property
    def latency(self) -> float:
        """Seconds of the last answered keepalive ping; 0 before the first."""
        return self._connection.latency

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._connection.state

    @property
    def protocol(self) -> Connection:
        """This object: for programs that read `connection.protocol.state` of `websockets`."""
        return self

    @property
    def subprotocol(self) -> str | None:
        """The selected subprotocol, or None."""
        return self._connection.subprotocol

    @property
    def close_code(self) -> int | None:
        """The code of the peer's close frame, 1006 if there was none, None while open."""
        return self._connection.close_code

    @property
    def close_reason(self) -> str | None:
        """The reason in the peer's close frame, None while open."""
        return self._connection.close_reason

    def _call(
        self,
        function: Callable[..., Awaitable[T]],
        *arguments: Any,
        timeout: float | None = None,
    ) -> T:
        # The child of a fork has the socket too, and would mix its frames with its parent's.
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{type(self).__name__} was opened by the process that forked this one; open"
                " another connection here"
            )
        return call(function, *arguments, timeout=timeout)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *exc_info: object) -> None:
        self.close(1000 if exc_type is None else 1011)

    def __iter__(self) -> Iterator[Data]:
        try:
            while True:
                yield self.recv()
        except ConnectionClosedOK:
            return

    @overload
    def recv(self, timeout: float | None, decode: Literal[True]) -> str: ...
    @overload
    def recv(self, timeout: float | None, decode: Literal[False]) -> bytes: ...
    @overload
    def recv(self, timeout: float | None = None, *, decode: Literal[True]) -> str: ...
    @overload
    def recv(self, timeout: float | None = None, *, decode: Literal[False]) -> bytes: ...
    @overload
    def recv(self, timeout: float | None = None, decode: bool | None = None) -> Data: ...
    def recv(self, timeout: float | None = None, decode: bool | None = None) -> Data:
        """Receive the next message.

        Args:
            timeout: Seconds; None has no limit. A time-out loses no message.
            decode: As for the asynchronous `recv`.

        Raises:
            ConnectionClosed: If the connection is closed.
            ConcurrencyError: If another thread receives.
            TimeoutError: If no message arrives in time.
        """
        # A queued message is returned even if `timeout` is 0.
        limit = None if timeout is None else max(timeout, 0.0)
        try:
            return self._call(self._connection.recv, decode, timeout=limit)
        except TimeoutError:
            raise TimeoutError(f"no message within {timeout} s") from None

    @overload
    def recv_streaming(self, decode: Literal[True]) -> Iterator[str]: ...
    @overload
    def recv_streaming(self, decode: Literal[False]) -> Iterator[bytes]: ...
    @overload
    def recv_streaming(self, decode: bool | None = None) -> Iterator[Data]: ...
    def recv_streaming(self, decode: bool | None = None) -> Iterator[Data]:
        """Iterate over the parts of the next message, as the asynchronous method does."""
        parts = self._connection.recv_streaming(decode)
        try:
            while True:
                yield self._call(parts.__anext__)
        except StopAsyncIteration:
            return

    def send(self, message: DataLike | Iterable[DataLike], text: bool | None = None) -> None:
        """Send a message; an iterable is sent in fragments.

        Args:
            message: The message.
            text: As for the asynchronous `send`.

        Raises:
            ConnectionClosed: If the connection is closed.
        """
        given: Any = message
        if not isinstance(message, DataLike) and isinstance(message, Iterable | Iterator):
            given = _Blocking(message) if not hasattr(message, "keys") else message
        self._call(self._send, given, text)

    async def _send(self, message: Any, text: bool | None) -> None:
        await self._connection.send(message, text=text)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection as the asynchronous `close` does.

        In the child of a fork the call does nothing: the connection belongs to the parent.

        Raises:
            ProtocolError: If the code or the reason cannot be sent.
        """
        if os.getpid() == self._process:
            self._call(self._connection.close, code, reason)

    def wait_closed(self, timeout: float | None = None) -> bool:
        """Wait until the connection is closed.

        Args:
            timeout: Seconds; None has no limit.

        Returns:
            Whether the connection is closed.
        """
        try:
            self._call(self._connection.wait_closed, timeout=timeout)
        except TimeoutError:
            return False
        return True

    def ping(self, data: DataLike | None = None, ack_on_close: bool = False) -> threading.Event:
        """Send a ping.

        Args:
            data: The payload, at most 125 bytes; 4 random bytes if None.
            ack_on_close: Whether the end of the connection sets the event too.

        Returns:
            An event, set when the pong arrives.

        Raises:
            ConnectionClosed: If the connection is closed.
            ConcurrencyError: If a ping with that payload is unanswered.
            ProtocolError: If the payload is too long.
        """
        answered = threading.Event()

        def note(future: asyncio.Future[float]) -> None:
            if not future.cancelled() and (ack_on_close or future.exception() is None):
                answered.set()

        async def send() -> None:
            waiter = await self._connection.ping(data)
            assert isinstance(waiter, asyncio.Future)
            waiter.add_done_callback(note)

        self._call(send)
        return answered

    def pong(self, data: DataLike = b"") -> None:
        """Send an unsolicited pong; `data` is the payload, at most 125 bytes.

        Raises:
            ConnectionClosed: If the connection is closed.
            ProtocolError: If the payload is too long.
        """
        self._call(self._connection.pong, data)


class _Blocking:
    """An iterable whose items may take long: it is advanced in the executor's threads."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self._parts = parts

    async def __aiter__(self) -> Any:
        loop = loop_of_this_process()
        parts, end = iter(self._parts), object()
        while (part := await loop.run_in_executor(None, next, parts, end)) is not end:
            yield part
