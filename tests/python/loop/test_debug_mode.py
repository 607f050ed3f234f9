"""Debug mode: slow callbacks, calls from the wrong thread, source tracebacks."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Run, RunScript
from .peers import Recorder
from .test_faults_by_transport import Link


@pytest.fixture
def debugged(loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    loop.set_debug(True)
    return loop


def test_debug_is_off_and_can_be_set(loop: asyncio.AbstractEventLoop) -> None:
    assert loop.get_debug() is False
    loop.set_debug(True)
    assert loop.get_debug() is True
    assert "debug=True" in repr(loop)
    loop.set_debug(False)
    assert loop.get_debug() is False


@pytest.mark.parametrize(
    ("options", "expected"), [({"PYTHONASYNCIODEBUG": "1"}, "True"), ({}, "False")]
)
def test_the_environment_enables_debug_mode(
    run_script: RunScript, options: dict[str, str], expected: str
) -> None:
    done = run_script("loop = new_loop(); print(loop.get_debug()); loop.close()", env=options)
    assert done.stdout == expected + "\n", done.stderr


def test_a_slow_callback_is_logged_by_its_name(
    debugged: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    assert debugged.slow_callback_duration == 0.1
    debugged.slow_callback_duration = 0.0

    def distinctly_named() -> None: ...

    debugged.call_soon(distinctly_named)
    debugged.call_soon(debugged.stop)
    debugged.run_forever()
    slow = [r.getMessage() for r in caplog.records if "Executing" in r.getMessage()]
    assert any("distinctly_named" in line and "took" in line for line in slow)


def test_a_slow_task_step_is_logged(
    debugged: asyncio.AbstractEventLoop, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    debugged.slow_callback_duration = 0.0

    async def distinctly_named() -> None: ...

    async def main() -> None:
        await asyncio.create_task(distinctly_named())

    run(main())
    slow = [r.getMessage() for r in caplog.records if "Executing" in r.getMessage()]
    assert any("Task" in line and "distinctly_named" in line for line in slow)


@pytest.mark.parametrize("kind", ["tcp", "unix", "tls"])
def test_slow_callbacks_of_a_protocol_are_logged(
    debugged: asyncio.AbstractEventLoop, run: Run, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    async def main() -> list[str]:
        async with Link(kind) as link:
            await link.connect(Recorder)
            caplog.clear()
            debugged.slow_callback_duration = 0.0
            link.peer.sendall(b"data")
            await link.protocol.received(4)
            await asyncio.sleep(0)
            debugged.slow_callback_duration = 60.0
            return [r.getMessage() for r in caplog.records if "SocketTransport" in r.getMessage()]

    slow = run(main())
    assert any(line.startswith("Executing") and "took" in line for line in slow)


def test_slow_callbacks_of_a_datagram_protocol_are_logged(
    debugged: asyncio.AbstractEventLoop, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    arrived = asyncio.Event()

    class Protocol(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: object) -> None:
            arrived.set()

    async def main() -> None:
        transport, _ = await debugged.create_datagram_endpoint(
            Protocol, local_addr=("127.0.0.1", 0)
        )
        debugged.slow_callback_duration = 0.0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
            peer.sendto(b"data", transport.get_extra_info("sockname"))
        await arrived.wait()
        await asyncio.sleep(0)
        transport.close()

    run(main())
    slow = [r.getMessage() for r in caplog.records if "DatagramTransport" in r.getMessage()]
    assert any(line.startswith("Executing") and "took" in line for line in slow)


def test_a_slow_protocol_factory_of_a_server_is_logged(
    debugged: asyncio.AbstractEventLoop, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    made = asyncio.Event()

    def factory() -> asyncio.Protocol:
        made.set()
        return asyncio.Protocol()

    async def main() -> None:
        async with await debugged.create_server(factory, "127.0.0.1", 0) as server:
            with socket.create_connection(server.sockets[0].getsockname()):
                caplog.clear()
                debugged.slow_callback_duration = 0.0
                await made.wait()
                await asyncio.sleep(0)

    run(main())
    slow = [r.getMessage() for r in caplog.records if r.getMessage().startswith("Executing")]
    assert any("ccept" in line or "Listener" in line for line in slow)


def test_nothing_is_logged_without_debug(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.slow_callback_duration = 0.0
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert "Executing" not in caplog.text


@pytest.mark.parametrize("method", ["call_soon", "call_later", "call_at"])
def test_a_call_from_another_thread_is_refused(
    debugged: asyncio.AbstractEventLoop, run: Run, method: str
) -> None:
    arguments: tuple[Any, ...] = (print,) if method == "call_soon" else (0, print)

    def call() -> None:
        with pytest.raises(RuntimeError, match="Non-thread-safe operation invoked"):
            getattr(debugged, method)(*arguments)

    async def main() -> None:
        await asyncio.to_thread(call)

    run(main())


def test_a_thread_may_use_call_soon_threadsafe(
    debugged: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread]
) -> None:
    debugged.call_soon(in_thread, debugged.call_soon_threadsafe, debugged.stop)
    debugged.run_forever()


@pytest.mark.parametrize("method", ["call_soon", "call_soon_threadsafe", "call_later", "call_at"])
def test_a_coroutine_function_is_refused(debugged: asyncio.AbstractEventLoop, method: str) -> None:
    async def coroutine() -> None: ...

    first: tuple[Any, ...] = (0,) if method in ("call_later", "call_at") else ()
    with pytest.raises(TypeError, match="coroutines cannot be used with"):
        getattr(debugged, method)(*first, coroutine)


@pytest.mark.parametrize("method", ["call_soon", "call_soon_threadsafe", "call_later", "call_at"])
def test_an_uncallable_object_is_refused(debugged: asyncio.AbstractEventLoop, method: str) -> None:
    first: tuple[Any, ...] = (0,) if method in ("call_later", "call_at") else ()
    with pytest.raises(TypeError, match="a callable object was expected by"):
        getattr(debugged, method)(*first, "not callable")


def test_an_exceptions_context_shows_where_the_callback_was_scheduled(
    debugged: asyncio.AbstractEventLoop, contexts: list[dict[str, Any]]
) -> None:
    def fail() -> None:
        raise LookupError

    def schedule_here() -> None:
        debugged.call_soon(fail)
        debugged.call_later(0, fail)

    schedule_here()
    debugged.call_later(0.003, debugged.stop)
    debugged.run_forever()
    assert len(contexts) == 2
    for context in contexts:
        assert "schedule_here" in [frame.name for frame in context["source_traceback"]]


def test_the_repr_of_a_handle_shows_where_it_was_created(
    debugged: asyncio.AbstractEventLoop,
) -> None:
    for handle in (debugged.call_soon(print), debugged.call_later(100, print)):
        assert "created at" in repr(handle)
        assert "test_debug_mode.py" in repr(handle)
        handle.cancel()
        assert "print" in repr(handle)
        assert "cancelled" in repr(handle)


def test_the_origin_of_an_unawaited_coroutine_is_reported(run_script: RunScript) -> None:
    done = run_script(
        """
        async def forgotten(): ...
        async def main():
            forgotten()
        loop = new_loop()
        loop.set_debug(True)
        loop.run_until_complete(main())
        loop.close()
        import sys
        print(sys.get_coroutine_origin_tracking_depth())
        """
    )
    assert done.stdout == "0\n"
    assert "was never awaited" in done.stderr
    assert "Coroutine created at" in done.stderr
