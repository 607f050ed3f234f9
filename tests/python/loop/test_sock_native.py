"""The awaitables of sock_recv and similar methods: coroutine interface, results, cancelling."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import gc
import inspect
import random
import socket
import ssl
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from .conftest import LoopFactory, Run
from .peers import receive_exactly
from .socket_pairs import Pair, connected_pair, settle


def test_an_operation_is_accepted_as_a_coroutine(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair
    operation = loop.sock_recv(left, 10)
    assert asyncio.iscoroutine(operation)
    assert isinstance(operation, Coroutine)
    assert inspect.isawaitable(operation)
    assert not asyncio.isfuture(operation)
    assert "sock_recv" in getattr(operation, "__qualname__")  # noqa: B009
    assert "sock_recv" in repr(operation)
    right.send(b"0123456789" * 5)
    assert run(operation) == b"0123456789"

    async def main() -> None:
        assert await asyncio.create_task(loop.sock_recv(left, 10)) == b"0123456789"
        assert await asyncio.ensure_future(loop.sock_recv(left, 10)) == b"0123456789"
        assert await asyncio.wait_for(loop.sock_recv(left, 10), 30) == b"0123456789"
        data, number = await asyncio.gather(loop.sock_recv(left, 10), asyncio.sleep(0, 1))
        assert (data, number) == (b"0123456789", 1)

    run(main())


def test_run_until_complete_accepts_an_operation(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    loop.call_soon(right.send, b"later")
    assert loop.run_until_complete(loop.sock_recv(left, 100)) == b"later"


def test_an_operation_has_no_effect_before_its_await(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        sending = loop.sock_sendall(left, b"late")
        await settle()
        right.setblocking(False)
        with pytest.raises(BlockingIOError):
            right.recv(1)
        await sending
        assert right.recv(10) == b"late"

    run(main())


def test_an_operation_that_is_never_awaited_warns(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    right.send(b"kept")
    with pytest.warns(RuntimeWarning, match=r"sock_recv' was never awaited"):
        forgotten = loop.sock_recv(left, 10)
        del forgotten
        gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        closed = loop.sock_recv(left, 10)
        closed.close()
        del closed
        gc.collect()
    assert left.recv(10) == b"kept"


def test_every_operation_that_is_never_awaited_warns(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    # The memory of a freed operation serves the next one. Each has its own finalizer call.
    near, far = pair
    for data in (b"one", b"two", b"three"):
        with pytest.warns(RuntimeWarning, match="was never awaited"):
            loop.sock_recv(near, 10)  # type: ignore[unused-coroutine]
            gc.collect()
        far.send(data)
        assert loop.run_until_complete(loop.sock_recv(near, 10)) == data


def test_an_operation_completes_without_an_iteration_if_possible(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    right.send(b"there")
    with pytest.raises(StopIteration) as received:
        loop.sock_recv(left, 10).send(None)
    assert received.value.value == b"there"
    with pytest.raises(StopIteration) as sent:
        loop.sock_sendall(left, b"x").send(None)
    assert sent.value.value is None


def test_an_operation_is_awaited_once(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair
    right.send(b"there")
    operation = loop.sock_recv(left, 10)
    assert run(operation) == b"there"
    with pytest.raises(RuntimeError, match="already awaited"):
        operation.send(None)
    with pytest.raises(RuntimeError, match="already awaited"):
        operation.throw(ValueError())
    operation.close()
    another = loop.sock_recv(left, 10)
    with pytest.raises(TypeError, match="just-started"):
        another.send(1)
    another.close()


def test_a_thrown_exception_ends_the_operation(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair
    operation = loop.sock_recv(left, 10)
    with pytest.raises(ZeroDivisionError, match="thrown"):
        operation.throw(ZeroDivisionError("thrown"))

    async def main() -> None:
        waiting = loop.sock_recv(left, 10)
        assert waiting.send(None) is not None
        with pytest.raises(ZeroDivisionError):
            waiting.throw(ZeroDivisionError)
        right.send(b"for the next")
        assert await loop.sock_recv(left, 100) == b"for the next"

    run(main())


def test_a_waiting_tasks_repr_names_the_operation(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        task = asyncio.create_task(loop.sock_recv(left, 10))
        await settle()
        assert "sock_recv" in repr(task)
        assert "wait_for=" in repr(task)
        assert task.get_stack() is not None
        right.send(b"x")
        await task

    run(main())


def test_the_task_resumes_in_its_own_context(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")

    async def receive() -> str:
        variable.set("inside")
        await loop.sock_recv(left, 10)
        assert asyncio.current_task() is not None
        return variable.get()

    async def main() -> None:
        task = asyncio.create_task(receive())
        await settle()
        right.send(b"x")
        assert await task == "inside"
        assert variable.get() == "outside"

    run(main())


def test_a_cancelled_wait_raises_the_message_and_removes_its_reader(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        task = asyncio.create_task(loop.sock_recv(left, 100))
        await settle()
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert not loop.remove_reader(left)
        right.send(b"for the next")
        await settle()
        assert await loop.sock_recv(left, 100) == b"for the next"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(loop.sock_recv(left, 1), 0.001)
        right.send(b"again")
        assert await loop.sock_recv(left, 100) == b"again"

    run(main())


def test_cancelling_never_loses_bytes(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair, only_penstock: None
) -> None:
    left, right = pair
    choose = random.Random(7)
    sent = bytes(choose.randbytes(3000))
    received = bytearray()

    async def receive() -> None:
        received.extend(await loop.sock_recv(left, 7))

    async def main() -> None:
        for byte in sent:
            task = asyncio.create_task(receive())
            for _ in range(choose.randrange(3)):
                await asyncio.sleep(0)
            right.send(bytes([byte]))
            for _ in range(choose.randrange(3)):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        while len(received) < len(sent):
            await receive()

    run(main())
    assert received == sent


def test_a_zero_timeout_still_returns_available_data(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        for _ in range(5):
            waiting = asyncio.create_task(loop.sock_recv(left, 100))
            await settle()
            right.send(b"x")
            assert await waiting == b"x"
        right.send(b"there")
        await settle()
        assert await asyncio.wait_for(loop.sock_recv(left, 100), 30) == b"there"

    run(main())


def test_both_directions_are_used_concurrently(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    left, right = connected_pair()
    right.setblocking(False)
    data = random.Random(3).randbytes(3_000_000)

    async def receive(sock: socket.socket) -> bytes:
        received = bytearray()
        while len(received) < len(data):
            received += await loop.sock_recv(sock, 300_000)
        return bytes(received)

    async def main() -> None:
        _, _, at_left, at_right = await asyncio.gather(
            loop.sock_sendall(left, data),
            loop.sock_sendall(right, bytearray(data)),
            receive(left),
            receive(right),
        )
        assert at_left == at_right == data

    with left, right:
        run(main())


def test_a_buffer_during_a_send_cannot_be_resized(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, _ = pair
    data = bytearray(4_000_000)

    async def main() -> None:
        task = asyncio.create_task(loop.sock_sendall(left, data))
        await settle()
        with pytest.raises(BufferError):
            data.clear()
        task.cancel()
        await asyncio.wait([task])
        del task
        gc.collect()
        data.clear()

    run(main())


def test_arguments_are_refused_as_by_asyncio(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, _ = pair
    untyped: Any = loop

    async def main() -> None:
        with pytest.raises(TypeError):
            await untyped.sock_recv(left)
        with pytest.raises(TypeError):
            await untyped.sock_recv(left, 1, 2)
        with pytest.raises(TypeError):
            await untyped.sock_recv(left, "10")
        with pytest.raises(ValueError, match="negative buffersize in recv"):
            await loop.sock_recv(left, -1)
        with pytest.raises(ValueError, match="negative buffersize in recvfrom"):
            await loop.sock_recvfrom(left, -1)
        with pytest.raises(TypeError, match="read-write bytes-like object, not bytes"):
            await untyped.sock_recv_into(left, b"10")
        with pytest.raises(ValueError, match="nbytes is greater"):
            await loop.sock_recvfrom_into(left, bytearray(2), 3)
        with pytest.raises(TypeError, match="bytes-like object is required, not 'str'"):
            await untyped.sock_sendall(left, "10")
        with pytest.raises(BufferError):
            await loop.sock_sendall(left, memoryview(b"0123")[::2])
        assert await loop.sock_recv(left, 0) == b""
        assert await loop.sock_recv_into(left, bytearray()) == 0
        assert await untyped.sock_recv(sock=left, n=0) == b""
        left.close()
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            await loop.sock_recv(left, 10)
        assert caught.value.errno == errno.EBADF

    run(main())


def test_debug_mode_refuses_a_blocking_socket(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    loop.set_debug(True)
    left, _ = pair
    left.setblocking(True)
    operations: list[Callable[[], Any]] = [
        lambda: loop.sock_recv(left, 1),
        lambda: loop.sock_recv_into(left, bytearray(1)),
        lambda: loop.sock_recvfrom(left, 1),
        lambda: loop.sock_recvfrom_into(left, bytearray(1)),
        lambda: loop.sock_sendall(left, b"x"),
        lambda: loop.sock_sendto(left, b"x", ("127.0.0.1", 9)),
        lambda: loop.sock_accept(left),
        lambda: loop.sock_connect(left, ("127.0.0.1", 9)),
    ]

    async def main() -> None:
        for operation in operations:
            with pytest.raises(ValueError, match="the socket must be non-blocking"):
                await operation()

    run(main())


def test_debug_mode_does_not_change_waits(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    loop.set_debug(True)
    left, right = pair

    async def main() -> None:
        task = asyncio.create_task(loop.sock_recv(left, 10))
        await settle()
        right.send(b"x")
        assert await task == b"x"
        task = asyncio.create_task(loop.sock_recv(left, 10))
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


def test_tls_sockets_are_refused(loop: asyncio.AbstractEventLoop, run: Run, pair: Pair) -> None:
    left, _ = pair
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    wrapped = context.wrap_socket(left, do_handshake_on_connect=False)

    async def main() -> None:
        with wrapped, pytest.raises(TypeError, match="SSLSocket"):
            await loop.sock_recv(wrapped, 10)

    run(main())


def test_the_methods_of_a_socket_subclass_are_called(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    class Shouting(socket.socket):
        def recv(self, size: int, flags: int = 0) -> bytes:
            return super().recv(size, flags).upper()

    left, right = connected_pair()
    shouting = Shouting(fileno=left.detach())
    shouting.setblocking(False)

    async def main() -> None:
        task = asyncio.create_task(loop.sock_recv(shouting, 10))
        await settle()
        right.send(b"quiet")
        assert await task == b"QUIET"

    with shouting, right:
        run(main())


def test_a_transports_socket_is_refused(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, _ = pair

    async def main() -> None:
        _, writer = await asyncio.open_connection(sock=left)
        with pytest.raises(RuntimeError, match="is used by transport"):
            await loop.sock_recv(left, 10)
        writer.close()
        await writer.wait_closed()

    run(main())


def test_an_exception_that_ends_the_run_propagates_from_a_resumed_task(
    new_loop: LoopFactory, pair: Pair
) -> None:
    loop = new_loop()
    left, right = pair

    async def leave() -> None:
        await loop.sock_recv(left, 10)
        raise SystemExit(3)

    async def main() -> None:
        task = asyncio.create_task(leave())
        await settle()
        right.send(b"x")
        await task

    with pytest.raises(SystemExit):
        loop.run_until_complete(main())
    loop.close()


def test_large_reads_are_complete(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    data = random.Random(5).randbytes(150_000)

    async def main() -> None:
        right.send(data)
        assert await loop.sock_recv(left, 1_000_000) == data
        right.send(data)
        assert await loop.sock_recvfrom(left, 1_000_000) == (data, None)

    with left, right:
        left.setblocking(False)
        run(main())


def test_sendall_ends_when_the_peer_closes(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        task = asyncio.create_task(loop.sock_sendall(left, bytes(5_000_000)))
        await settle()
        receive_exactly(right, 1000)
        right.close()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            await task

    run(main())
