# The native half of penstock.Loop; private to the package.
import asyncio
import contextvars
import socket
import ssl
import traceback
from collections.abc import Callable, Coroutine, Generator
from typing import Any

class Handle(asyncio.Handle):
    _callback: Callable[..., object]
    _args: tuple[Any, ...]
    _cancelled: bool
    _context: contextvars.Context
    _source_traceback: traceback.StackSummary | None

class TimerHandle(Handle, asyncio.TimerHandle):
    _when: float
    _scheduled: bool

# At run time LoopCore stands beside asyncio.SelectorEventLoop as a second base of Loop. Here it is
# shown as its subclass, to declare the private seams of asyncio's loop that Loop fills.
class LoopCore(asyncio.SelectorEventLoop):
    slow_callback_duration: float
    _closed: bool
    _debug: bool
    _stopping: bool
    _thread_id: int | None
    _csock: Any
    _ssock: Any
    _internal_fds: int
    _signal_handlers: dict[int, asyncio.Handle]

    def __init__(self, selector: Any = None) -> None: ...

    # asyncio's
    _asyncgen_firstiter_hook: Any
    _asyncgen_finalizer_hook: Any
    def _accept_connection2(self, *args: Any, **kwargs: Any) -> Any: ...
    def _add_reader(self, fileobj: Any, callback: Callable[..., object], *args: Any) -> Handle: ...
    def _remove_reader(self, fileobj: Any) -> bool: ...
    def _child_watcher_callback(self, *args: Any) -> None: ...
    async def _make_subprocess_transport(self, *args: Any, **kwargs: Any) -> Any: ...
    def _check_closed(self) -> None: ...
    def _check_running(self) -> None: ...
    def _set_coroutine_origin_tracking(self, enabled: bool) -> None: ...
    def _make_datagram_transport(self, *args: Any) -> asyncio.DatagramTransport: ...
    def _stop_serving(self, sock: socket.socket) -> None: ...

    # native
    def _close_native(self) -> None: ...
    def _run_until_stopped(self) -> None: ...
    def _run_once(self) -> None: ...
    def _signal_write_end(self) -> int: ...
    def _watched_events(self, fileobj: Any) -> int: ...
    def _write_to_self(self) -> None: ...

class SocketTransport(asyncio.Transport):
    _sock: socket.socket
    _sock_fd: int
    _protocol_paused: bool
    def __init__(
        self,
        loop: LoopCore,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol | SSLTransport,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
        server: asyncio.AbstractServer | None = None,
    ) -> None: ...
    def _force_close(self, reason: BaseException | None) -> None: ...
    def set_protocol(self, protocol: asyncio.BaseProtocol | SSLTransport) -> None: ...
    def _make_empty_waiter(self) -> asyncio.Future[None]: ...
    def _release_watch(self) -> None: ...
    def _reset_empty_waiter(self) -> None: ...

class DatagramTransport(asyncio.Transport, asyncio.DatagramTransport):
    _sock: socket.socket | None
    _sock_fd: int
    _address: Any
    _protocol_paused: bool
    def __init__(
        self,
        loop: LoopCore,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        address: Any = None,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None: ...

class SSLTransport(asyncio.Transport):
    _protocol_paused: bool
    def __init__(
        self,
        loop: LoopCore,
        protocol: asyncio.BaseProtocol,
        sslcontext: ssl.SSLContext,
        waiter: asyncio.Future[None] | None,
        server_side: bool,
        server_hostname: str | None,
        call_connection_made: bool,
        ssl_handshake_timeout: float,
        ssl_shutdown_timeout: float,
    ) -> None: ...
    def _connect(self, transport: SocketTransport) -> None: ...
    def _force_close(self, reason: BaseException | None) -> None: ...
    def get_read_buffer_limits(self) -> tuple[int, int]: ...
    def get_read_buffer_size(self) -> int: ...
    def set_read_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

class Listener:
    def __init__(
        self,
        loop: LoopCore,
        sock: socket.socket,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        server: asyncio.AbstractServer | None,
        backlog: int,
        on_exhausted: Callable[[OSError], None],
        on_accepted: Callable[[int, int], None] | None = None,
    ) -> None: ...
    def stop(self) -> None: ...

class ReadOperation(Coroutine[Any, Any, bytes]):
    def cancel(self, msg: object = None) -> bool: ...
    def done(self) -> bool: ...
    def get_loop(self) -> asyncio.AbstractEventLoop: ...
    def send(self, value: None, /) -> Any: ...
    def throw(self, *args: Any) -> Any: ...
    def close(self) -> None: ...
    def __await__(self) -> Generator[Any, None, bytes]: ...

class Completed(Coroutine[Any, Any, None]):
    def send(self, value: None, /) -> Any: ...
    def throw(self, *args: Any) -> Any: ...
    def close(self) -> None: ...
    def __await__(self) -> Generator[Any]: ...

class StreamReader:
    """The receiving side of a stream connection; asyncio.StreamReader's interface."""

    def __init__(
        self, limit: int = 65536, loop: asyncio.AbstractEventLoop | None = None
    ) -> None: ...
    def read(self, n: int = -1) -> Coroutine[Any, Any, bytes]:
        """Read up to n bytes, at least one; b"" at the end. With n = -1, read until the end.

        A cancelled read loses nothing. RuntimeError when another read waits.
        """

    def readexactly(self, n: int) -> Coroutine[Any, Any, bytes]:
        """Read n bytes; asyncio.IncompleteReadError when the stream ends before."""

    def readline(self) -> Coroutine[Any, Any, bytes]:
        """Read a line with its newline; what there is at the end of the stream.

        ValueError when the line is longer than the limit.
        """

    def readuntil(self, separator: bytes | tuple[bytes, ...] = b"\n") -> Coroutine[Any, Any, bytes]:
        """Read up to and including a separator.

        asyncio.IncompleteReadError when the stream ends before, asyncio.LimitOverrunError when
        there is none within the limit.
        """

    def at_eof(self) -> bool: ...
    def exception(self) -> BaseException | None: ...
    def set_exception(self, exc: BaseException) -> None: ...
    def set_transport(self, transport: asyncio.BaseTransport) -> None: ...
    def feed_data(self, data: bytes) -> None: ...
    def feed_eof(self) -> None: ...
    def __aiter__(self) -> StreamReader: ...
    def __anext__(self) -> Coroutine[Any, Any, bytes]: ...
    def _replace_transport(self, transport: asyncio.BaseTransport) -> None: ...

class StreamProtocolCore:
    def data_received(self, data: bytes) -> None: ...
    _reader: StreamReader | None
    _transport: asyncio.Transport | None
    _paused: bool
    _lost: bool
    def drain(self) -> Coroutine[Any, Any, None]: ...
