"""``Loop``: the native core under asyncio's own interface.

What runs often (scheduling, timers, readiness, stream sockets, accepting) is native, in
``penstock._core``. What runs rarely (resolving and connecting, argument checks, executors, child
processes, exception reports) is inherited from asyncio, so that in every Python version it behaves
as that version's asyncio does. Loops that reimplement everything lack a third of the interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import socket
import sys
import threading
from asyncio import base_events, events, futures, sslproto
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import _core

# The native core imports it by name. Here, the loop's first wait does not load it.
from penstock.loop import _upcalls as _upcalls
from penstock.loop._accepting import Acceptor
from penstock.loop._tls import make_tls_transport, take_unread

if TYPE_CHECKING:
    from contextvars import Context
    from ssl import SSLContext

    ProtocolFactory = Callable[[], asyncio.BaseProtocol]

T = TypeVar("T")

_SSLProtocol: Any = sslproto.SSLProtocol

_NATIVE_DATAGRAM_FAMILIES = {socket.AF_INET, socket.AF_INET6, socket.AF_UNIX}
"""Families whose addresses the native core can encode; others use asyncio's own transport."""

_NESTING_MODULES = {"nest_asyncio", "nest_asyncio2"}

_signal_write_ends: set[int] = set()
"""The descriptors of the open loops at which signals wake them."""


class Loop(_core.LoopCore, asyncio.SelectorEventLoop):
    """An asyncio event loop on epoll, written in C++.

    Used by ``penstock.run(main())`` and ``asyncio.Runner(loop_factory=penstock.new_event_loop)``.
    Not thread safe, except ``call_soon_threadsafe`` and what is built on it.
    """

    def __init__(self) -> None:
        self._acceptors: dict[int, Acceptor] = {}
        super().__init__(_PollerView(self))

    # ---- running --------------------------------------------------------------------------------

    def run_forever(self) -> None:
        """Run until ``stop()`` is called."""
        self._check_closed()
        self._check_running()
        self._set_coroutine_origin_tracking(self._debug)
        old_hooks = sys.get_asyncgen_hooks()
        wakeup = _SignalWakeup(self._signal_write_end())
        try:
            self._thread_id = threading.get_ident()
            sys.set_asyncgen_hooks(
                firstiter=self._asyncgen_firstiter_hook, finalizer=self._asyncgen_finalizer_hook
            )
            events._set_running_loop(self)
            wakeup.install()
            self._run_until_stopped()
        finally:
            if not self._signal_handlers:  # a signal between two runs must be noted for them
                wakeup.remove()
            self._stopping = False
            self._thread_id = None
            events._set_running_loop(None)
            self._set_coroutine_origin_tracking(False)
            sys.set_asyncgen_hooks(*old_hooks)

    def close(self) -> None:
        """Close the loop: scheduled callbacks are dropped, open transports are released.

        Does nothing the second time.

        Raises:
            RuntimeError: while the loop is running.
        """
        if self.is_running():
            raise RuntimeError("Cannot close a running event loop")
        if self.is_closed():
            return
        while self._acceptors:  # releasing the last reference may run the program's code
            self._acceptors.popitem()[1].stop()
        super().close()
        self._close_native()

    @property
    def _nest_patched(self) -> bool:
        """Refuse nest_asyncio, which reads this before it replaces the iteration by asyncio's.

        asyncio's iteration would not see what only the native one knows.
        """
        if not _NESTING_MODULES.isdisjoint(sys.modules):
            raise RuntimeError(
                "nest_asyncio cannot patch penstock's loop, which iterates natively; use await "
                "instead of a nested run, or run this program on asyncio's own loop"
            )
        raise AttributeError("_nest_patched")

    # ---- asyncio's private hooks ----------------------------------------------------------------

    def _make_self_pipe(self) -> None:
        self._ssock = None
        self._csock = _SignalWriteEnd(self._signal_write_end())
        _signal_write_ends.add(self._csock.fileno())
        self._internal_fds += 1

    def _close_self_pipe(self) -> None:
        _signal_write_ends.discard(self._csock.fileno())
        self._csock = None
        self._internal_fds -= 1

    @property
    def _scheduled(self) -> list[asyncio.TimerHandle]:
        """The timers by deadline, as a list of its own: to change it changes nothing.

        Test tools that let time pass run the handles that they find here.
        """
        return sorted(self._timers())

    @_scheduled.setter
    def _scheduled(self, timers: list[asyncio.TimerHandle]) -> None:
        if timers:  # asyncio's __init__ sets an empty list
            raise AttributeError("_scheduled is read-only; use call_at() to add a timer")

    def _add_callback(self, handle: asyncio.Handle) -> None:
        if not handle._cancelled:
            self.call_soon(_run_unless_cancelled, handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a native timer is removed when it is cancelled."""

    def remove_signal_handler(self, sig: int) -> bool:
        """Remove a handler for a signal; returns whether there was one."""
        removed = super().remove_signal_handler(sig)
        if removed and not self._signal_handlers and self.is_running():
            # asyncio has just released the wake-up descriptor, which this loop uses while it runs.
            _SignalWakeup(self._signal_write_end()).install()
        return removed

    if sys.version_info[:2] == (3, 12):

        async def shutdown_default_executor(self, timeout: float | None = None) -> None:
            """Wait for the default executor's threads, at most ``timeout`` seconds."""
            from penstock.loop._executor_shutdown import shut_down

            await shut_down(self, timeout)

    if sys.version_info >= (3, 14):

        def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
            """Run a function in an executor, as asyncio does.

            What the function sends with `call_soon_threadsafe` comes before its result. Since 3.14,
            asyncio sets the result at once if the function has ended already (gh-144506).
            """
            future = super().run_in_executor(executor, func, *args)
            if not future.done():
                return future
            later: asyncio.Future[Any] = self.create_future()
            copy_state: Any = futures._copy_future_state  # type: ignore[attr-defined]
            self.call_soon_threadsafe(copy_state, future, later)
            return later

    # ---- stream sockets -------------------------------------------------------------------------

    def _make_socket_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        *,
        extra: dict[str, Any] | None = None,
        server: asyncio.AbstractServer | None = None,
        context: Context | None = None,
    ) -> asyncio.Transport:
        return _in_context(
            context, _core.SocketTransport, self, sock, protocol, waiter, extra, server
        )

    def _make_datagram_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        address: Any = None,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> asyncio.DatagramTransport:
        if sock.family not in _NATIVE_DATAGRAM_FAMILIES:
            return super()._make_datagram_transport(sock, protocol, address, waiter, extra)
        return _core.DatagramTransport(self, sock, protocol, address, waiter, extra)

    def _make_ssl_transport(
        self,
        rawsock: socket.socket,
        protocol: asyncio.BaseProtocol,
        sslcontext: SSLContext,
        waiter: asyncio.Future[None] | None = None,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        extra: dict[str, Any] | None = None,
        server: asyncio.AbstractServer | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        context: Context | None = None,
        **others: Any,
    ) -> asyncio.Transport:
        tls = None
        if not others:
            tls = make_tls_transport(
                self,
                protocol,
                sslcontext,
                waiter,
                server_side=server_side,
                server_hostname=server_hostname,
                call_connection_made=True,
                ssl_handshake_timeout=ssl_handshake_timeout,
                ssl_shutdown_timeout=ssl_shutdown_timeout,
            )
        if tls is not None:
            _in_context(context, _core.SocketTransport, self, rawsock, tls, None, extra, server)
            return tls
        ssl_protocol: Any = _SSLProtocol(
            self,
            protocol,
            sslcontext,
            waiter,
            server_side,
            server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
            **others,
        )
        _in_context(
            context, _core.SocketTransport, self, rawsock, ssl_protocol, None, extra, server
        )
        transport: asyncio.Transport = ssl_protocol._app_transport
        return transport

    async def start_tls(
        self,
        transport: asyncio.BaseTransport,
        protocol: asyncio.BaseProtocol,
        sslcontext: SSLContext,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> asyncio.Transport | None:
        """Upgrade a transport to TLS; return the transport that ``protocol`` uses from now on.

        Returns None if this side has closed the connection before the handshake is finished. After
        a failure or a cancellation the transport is closed.

        Raises:
            ssl.SSLError: if the handshake fails.
            ConnectionError: if the connection is lost.
            TypeError: if the context or the transport is unsuitable.
        """
        tls = None
        waiter: asyncio.Future[None] = self.create_future()
        if isinstance(transport, _core.SocketTransport) and sslcontext is not None:
            tls = make_tls_transport(
                self,
                protocol,
                sslcontext,
                waiter,
                server_side=server_side,
                server_hostname=server_hostname,
                call_connection_made=False,
                ssl_handshake_timeout=ssl_handshake_timeout,
                ssl_shutdown_timeout=ssl_shutdown_timeout,
            )
        if tls is None or not isinstance(transport, _core.SocketTransport):
            return await super().start_tls(
                transport,
                protocol,
                sslcontext,
                server_side=server_side,
                server_hostname=server_hostname,
                ssl_handshake_timeout=ssl_handshake_timeout,
                ssl_shutdown_timeout=ssl_shutdown_timeout,
            )
        # Nothing may be received between the switch of protocols and the handshake's begin.
        transport.pause_reading()
        if server_side:
            tls._feed(take_unread(protocol))
        transport.set_protocol(tls)
        begin = self.call_soon(tls._connect, transport)
        resume = self.call_soon(transport.resume_reading)
        try:
            await waiter
        except BaseException:
            transport.close()
            begin.cancel()
            resume.cancel()
            raise
        finally:
            # The waiter holds its exception, whose traceback holds this frame.
            del waiter
        return tls if tls._loop is not None else None

    def _start_serving(
        self,
        protocol_factory: ProtocolFactory,
        sock: socket.socket,
        sslcontext: SSLContext | None = None,
        server: asyncio.AbstractServer | None = None,
        backlog: int = 100,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        context: Context | None = None,
    ) -> None:
        """``context`` is the server's, from Python 3.15 on; None means the current one."""
        acceptor = Acceptor(
            self,
            sock,
            protocol_factory,
            sslcontext,
            server,
            backlog,
            {
                "ssl_handshake_timeout": ssl_handshake_timeout,
                "ssl_shutdown_timeout": ssl_shutdown_timeout,
            },
            context,
        )
        acceptor.start()
        self._acceptors[sock.fileno()] = acceptor

    def _stop_serving(self, sock: socket.socket) -> None:
        acceptor = self._acceptors.pop(sock.fileno(), None)
        if acceptor is not None:
            acceptor.stop()
        super()._stop_serving(sock)

    # ---- child processes ------------------------------------------------------------------------

    def _make_write_pipe_transport(self, *arguments: Any, **options: Any) -> asyncio.WriteTransport:
        from penstock.loop import _pipes

        transport: asyncio.WriteTransport = _pipes._UnixWritePipeTransport(
            self, *arguments, **options
        )
        return transport

    async def _make_subprocess_transport(
        self, *arguments: Any, **options: Any
    ) -> asyncio.SubprocessTransport:
        from penstock.loop import _children

        if _children.watcher_is_asyncios(self):
            return await _children.make_subprocess_transport(self, *arguments, **options)
        transport: asyncio.SubprocessTransport = await super()._make_subprocess_transport(
            *arguments, **options
        )
        return transport

    async def _sendfile_native(
        self, transp: asyncio.Transport, file: Any, offset: int, count: int | None
    ) -> int:
        from penstock.loop._sendfile import send_file

        transport = transp
        assert isinstance(transport, _core.SocketTransport)
        self._check_sendfile_params(transport._sock, file, offset, count)
        resume_reading = transport.is_reading()
        transport.pause_reading()
        queue_is_empty = transport._make_empty_waiter()
        try:
            await queue_is_empty
            return await send_file(self, transport, file, offset, count)
        finally:
            transport._reset_empty_waiter()
            if resume_reading:
                transport.resume_reading()


class _PollerView(selectors.BaseSelector):
    """The selector that asyncio's inherited methods see: it only reports what is watched."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise NotImplementedError("use loop.add_reader() or loop.add_writer()")

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise NotImplementedError("use loop.remove_reader() or loop.remove_writer()")

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        raise NotImplementedError("the loop waits natively")

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        watched = self._loop._watched_events(fileobj)
        if not watched:
            raise KeyError(f"{fileobj!r} is not registered")
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        return selectors.SelectorKey(fileobj, fd, watched, None)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class _SignalWriteEnd:
    """The write end of the loop's signal pipe, for ``signal.set_wakeup_fd``."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd


class _SignalWakeup:
    """Makes every signal wake the loop while it runs in the main thread.

    Otherwise a signal that arrives right before the loop blocks is noticed only at the next event.
    A wake-up descriptor that other code has set is not replaced.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._gets_signals = False

    def install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            previous = signal.set_wakeup_fd(self._fd, warn_on_full_buffer=False)
        except ValueError:  # a sub-interpreter gets no signals, and has a main thread too
            return
        self._gets_signals = True
        if previous not in (-1, self._fd):
            signal.set_wakeup_fd(previous)

    def remove(self) -> None:
        """Remove the descriptor, whoever has set it: also a handler that was added meanwhile."""
        if not self._gets_signals:
            return
        current = signal.set_wakeup_fd(-1)
        if current not in (-1, self._fd):
            signal.set_wakeup_fd(current)


if sys.version_info < (3, 12):

    def _forget_wakeup_in_child() -> None:
        """What asyncio does from Python 3.12 on: a child's signals must not reach its parent.

        Only for the loops of this module. The descriptor of other code is its own affair.
        """
        with contextlib.suppress(ValueError):  # in a sub-interpreter
            current = signal.set_wakeup_fd(-1)
            if current not in (-1, *_signal_write_ends):
                signal.set_wakeup_fd(current)

    os.register_at_fork(after_in_child=_forget_wakeup_in_child)


def _in_context(context: Context | None, make: Callable[..., T], *arguments: Any) -> T:
    return make(*arguments) if context is None else context.run(make, *arguments)


def _run_unless_cancelled(handle: asyncio.Handle) -> None:
    if not handle._cancelled:
        handle._run()


assert issubclass(Loop, base_events.BaseEventLoop)
