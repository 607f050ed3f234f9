"""One process that serves: alone, or as a worker."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import importlib
import os
import random
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._serve.application import Layers
from penstock.cli._serve.ending import AFTER_ABORT, AFTER_GRACE, LastMoment
from penstock.cli._serve.logs import Loggers
from penstock.cli._serve.metrics import Counters
from penstock.cli._service_manager import ServiceManager

_TICK = 0.5
_AFTER_LEFT = 1.0


def run_process(
    options: argparse.Namespace,
    loggers: Loggers,
    sockets: Sequence[socket.socket],
    place: str,
    heartbeat: int | None = None,
    counters: Counters | None = None,
) -> int | None:
    """Import the application and serve it until a signal.

    Args:
        options: The command's options.
        loggers: The server's loggers.
        sockets: Where it listens.
        place: The same in words.
        heartbeat: A descriptor that gets a byte each half second, from the loop.
        counters: Where it counts its requests.

    Returns:
        The number of the signal that has ended it, or None.

    Raises:
        CommandError: If the application cannot be imported or started (exit code CONFIG).
    """
    layers = Layers(options, loggers, counters)
    try:
        arguments = server_arguments(options, loggers)
        arguments["access_log"] = layers.access_log
        arguments["on_refusal"] = layers.on_refusal
        process = _Process(options, loggers, layers, sockets, place, heartbeat, counters)
        with (
            process.handled_signals(),
            asyncio.Runner(loop_factory=_loop_factory(options.loop)) as runner,
        ):
            return runner.run(process.serve(arguments))
    finally:
        layers.close()


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the loop.

    Raises:
        CommandError: If its package is not there (exit code MISSING_PART), or the name is wrong
            (CONFIG).
    """
    if name in ("asyncio", "none"):
        return asyncio.SelectorEventLoop
    if name in ("auto", "penstock"):
        import penstock

        return penstock.new_event_loop
    module_name, _, attribute = name.partition(":")
    try:
        module: Any = importlib.import_module(module_name)
        found: Any = getattr(module, attribute or "new_event_loop")
    except ImportError as error:
        if ":" not in name:
            raise CommandError(
                f"--loop {name} needs the package {name}: pip install {name}", ExitCode.MISSING_PART
            ) from error
        reason = one_line(error)
    except AttributeError as error:
        reason = one_line(error)
    else:
        if callable(found):
            return found  # type: ignore[no-any-return]
        reason = f"it is {type(found).__name__}"
    raise CommandError(
        f"--loop {name} cannot be used: {reason}; write MODULE:FUNCTION, such as "
        "penstock:new_event_loop",
        ExitCode.CONFIG,
    )


def server_arguments(options: argparse.Namespace, loggers: Loggers) -> dict[str, Any]:
    """Return the arguments of `penstock.asgi.serve`."""
    same = (
        "root_path lifespan server_header date_header proxy_headers forwarded_allow_ips "
        "limit_concurrency timeout_keep_alive timeout_graceful_shutdown backlog ws_max_size "
        "ws_max_queue ws_per_message_deflate http2"
    )
    return {
        **{name: getattr(options, name) for name in same.split()},
        "interface": "asgi3",
        "headers": [tuple(pair) for pair in options.header],
        "ws": options.ws != "none",
        "timeout_head": options.timeout_head or None,
        "timeout_body": options.timeout_body or None,
        "timeout_send": options.timeout_send or None,
        "ws_ping_interval": options.ws_ping_interval or None,
        "ws_ping_timeout": options.ws_ping_timeout or None,
        "ssl": _tls_context(options),
        "logger": loggers.error,
        "access_logger": loggers.access,
    }


def _tls_context(options: argparse.Namespace) -> ssl.SSLContext | None:
    if options.ssl_certfile is None and options.ssl_keyfile is None:
        return None
    if options.ssl_certfile is None:
        raise CommandError("--ssl-keyfile also needs --ssl-certfile", ExitCode.USAGE)
    try:
        protocol = options.ssl_version or ssl.PROTOCOL_TLS_SERVER
        context = ssl.SSLContext(protocol)
        context.check_hostname = False
        context.load_cert_chain(
            options.ssl_certfile, options.ssl_keyfile, options.ssl_keyfile_password
        )
        context.verify_mode = ssl.VerifyMode(options.ssl_cert_reqs)
        if options.ssl_ca_certs is not None:
            context.load_verify_locations(options.ssl_ca_certs)
        if options.ssl_ciphers is not None:
            context.set_ciphers(options.ssl_ciphers)
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        # The error of OpenSSL does not say which of the files it is.
        files = (options.ssl_certfile, options.ssl_keyfile, options.ssl_ca_certs)
        given = ", ".join(file for file in files if file is not None)
        raise CommandError(
            f"the certificate or another option of TLS cannot be used: {error.strerror}; check "
            f"these paths and that this user may read them: {given}",
            ExitCode.CONFIG,
        ) from error
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CommandError(
            f"the certificate or another option of TLS cannot be used: {one_line(error)}",
            ExitCode.CONFIG,
        ) from error
    return context


class _Process:
    def __init__(
        self,
        options: argparse.Namespace,
        loggers: Loggers,
        layers: Layers,
        sockets: Sequence[socket.socket],
        place: str,
        heartbeat: int | None,
        counters: Counters | None,
    ) -> None:
        self._options = options
        self._log = loggers.error
        self._layers = layers
        self._sockets = sockets
        self._place = place
        self._heartbeat = heartbeat
        self._server: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[Any] | None = None
        self._signums: list[int] = []
        # A worker that shares its supervisor's terminal hears of a Ctrl-C from that alone.
        shares_terminal = heartbeat is not None and options.reload
        self._hurrying = signal.SIGTERM if shares_terminal else signal.SIGINT
        self._counters = counters
        # A worker's supervisor speaks for it.
        self._manager = ServiceManager(os.environ if heartbeat is None else {})
        self._limits = ProcessLimits(options)
        self._last_moment = LastMoment(self._log, self._unfinished, self._exit_code)

    @contextlib.contextmanager
    def handled_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM end the server, until the loop is closed.

        ``loop.add_signal_handler`` has no effect in a loop that is blocked, nor in one that closes.
        """
        before = {
            signum: signal.signal(signum, lambda number, _: self._on_signal(number))
            for signum in {self._hurrying, signal.SIGTERM}
        }
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)

    async def serve(self, arguments: dict[str, Any]) -> int | None:
        from penstock import asgi

        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        if self._signums:
            return self._signums[0]
        self._log.info("Started server process [%d]", os.getpid())
        if self._counters is not None:
            self._counters.begin(os.getpid(), time.time())
        try:
            self._server = await asgi.serve(self._layers.app, sock=self._sockets, **arguments)
        except asgi.LifespanFailed as error:
            raise CommandError(
                f"the application refused to start: {one_line(error)}", ExitCode.CONFIG
            ) from error
        except (ValueError, OSError) as error:
            raise CommandError(one_line(error), ExitCode.CONFIG) from error
        except RuntimeError as error:  # HTTP/2 without its library
            raise CommandError(f"--http2: {one_line(error)}", ExitCode.MISSING_PART) from error
        except asyncio.CancelledError:
            if not self._signums:
                raise
            return self._signums[0]
        if self._heartbeat is None:
            self._log.info("Serving on %s (Press CTRL+C to quit)", self._place)
        self._manager.tell("READY=1")
        ticking = asyncio.create_task(self._tick())
        try:
            if self._signums:
                self._server.close()
            await self._server.wait_closed()
        except asgi.LifespanFailed as error:
            self._log.error("The application's shutdown failed: %s", one_line(error))
        finally:
            ticking.cancel()
        if self._server.unfinished():  # the server has told it
            self._last_moment.within(_AFTER_LEFT, silent=True)
        else:
            self._last_moment.within(AFTER_GRACE)
        self._log.info("Finished server process [%d]", os.getpid())
        return self._signums[0] if self._signums else None

    def _on_signal(self, signum: int) -> None:
        # In a handler of the signal, which may have interrupted anything.
        self._signums.append(signum)
        times = len(self._signums)
        if times == 1:
            self._end_within_grace()
            self._call(self._end)
        elif signum == self._hurrying and times == 2:
            self._last_moment.within(AFTER_ABORT)
            self._call(self._abort)
        elif signum == self._hurrying:
            self._last_moment.within(0.0)

    def _call(self, function: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(function)

    def _end(self) -> None:
        if self._server is None:
            assert self._main is not None
            self._main.cancel()
        else:
            self._log.info("Shutting down")
            self._manager.tell("STOPPING=1")
            self._server.close()

    def _abort(self) -> None:
        if self._server is not None:
            self._log.warning("Interrupted again: running requests are cancelled")
            self._server.abort()

    def _end_within_grace(self) -> None:
        self._last_moment.within(self._options.timeout_graceful_shutdown + AFTER_GRACE)

    def _exit_code(self) -> int:
        return ExitCode.TERMINATED if signal.SIGTERM in self._signums[:1] else ExitCode.DEFECT

    def _unfinished(self) -> list[str]:
        if self._server is None:
            return ["the application's startup"]
        names: list[str] = self._server.unfinished()
        if not names and self._loop is not None and not self._loop.is_closed():
            tasks = asyncio.all_tasks(self._loop) - {self._main}
            names += [f"task {getattr(task.get_coro(), '__qualname__', '')}" for task in tasks]
        names += [
            f"thread {thread.name}"
            for thread in threading.enumerate()
            if not thread.daemon and thread is not threading.main_thread()
        ]
        return names

    async def _tick(self) -> None:
        lag = 0.0
        while True:
            self._beat()
            self._tell(lag)
            reason = self._limits.exceeded(self._server.total_requests)
            if reason is not None:
                self._log.warning("%s Ending process.", reason)
                self._end_within_grace()
                self._server.close()
            before = time.monotonic()
            await asyncio.sleep(_TICK)
            lag = max(0.0, time.monotonic() - before - _TICK)

    def _tell(self, lag: float) -> None:
        counters = self._counters
        if counters is not None:
            counters.set("connections", self._server.open_connections)
            counters.set("in_progress", self._layers.in_progress)
            counters.set("loop_lag", lag)
            counters.set("memory", resident_memory())

    def _beat(self) -> None:
        if self._manager.watchdog_s is not None:
            self._manager.tell("WATCHDOG=1")
        if self._heartbeat is None:
            return
        try:
            os.write(self._heartbeat, b".")
        except BlockingIOError:
            pass  # it has enough of them to read
        except BrokenPipeError:
            self._log.error("The supervisor is gone. Ending process.")
            self._heartbeat = None
            self._end_within_grace()
            self._server.close()


# When a process has served enough: its requests, or its memory.


@functools.cache
def _statm(process: int) -> int:
    return os.open(f"/proc/{process}/statm", os.O_RDONLY | os.O_CLOEXEC)


def resident_memory() -> int:
    """Return the bytes of memory that this process has.

    It needs a descriptor at its first call only: later, clients may have taken all of them.
    """
    pages = os.pread(_statm(os.getpid()), 100, 0).split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class ProcessLimits:
    """The limits of one process, each with its own random addition.

    Without that, workers that began together would end together.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._requests = _raised(options.limit_max_requests, options.limit_max_requests_jitter)
        self._memory = _raised(options.limit_max_memory, options.limit_max_memory_jitter)

    def exceeded(self, requests: int) -> str | None:
        """Return in words which limit is reached; each limit once."""
        if self._requests is not None and requests >= self._requests:
            text = f"Maximum request limit of {self._requests} exceeded."
            self._requests = None
            return text
        if self._memory is not None and (memory := resident_memory()) >= self._memory:
            text = f"Memory limit of {self._memory >> 20} MiB exceeded ({memory >> 20} MiB)."
            self._memory = None
            return text
        return None


def _raised(limit: int | None, jitter: int) -> int | None:
    return None if limit is None else limit + random.randint(0, jitter)
