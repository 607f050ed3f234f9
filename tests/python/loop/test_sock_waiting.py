"""Sockets that tasks wait for: shared by several tasks, closed and reused, dropped."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import LoopFactory, Run
from .socket_pairs import Pair, connected_pair, settle


def test_tasks_that_wait_for_one_socket_are_resumed_in_order(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair, only_penstock: None
) -> None:
    left, right = pair

    async def main() -> None:
        tasks = [asyncio.create_task(loop.sock_recv(left, 1)) for _ in range(4)]
        await settle()
        tasks[1].cancel()
        right.send(b"abc")
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results.pop(1), asyncio.CancelledError)
        assert results == [b"a", b"b", b"c"]

    run(main())


def test_a_wait_and_callbacks_share_a_socket(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        writable = asyncio.Event()
        receiving = asyncio.create_task(loop.sock_recv(left, 10))
        await settle()
        loop.add_writer(left, writable.set)
        await writable.wait()
        right.send(b"read")
        assert await receiving == b"read"
        assert loop.remove_writer(left)
        readable = asyncio.Event()
        loop.add_reader(left, readable.set)
        right.send(b"more")
        await readable.wait()
        assert loop.remove_reader(left)
        assert await loop.sock_recv(left, 10) == b"more"

    run(main())


@pytest.mark.parametrize("reuse", ["sock_recv", "add_reader", "transport"])
def test_a_closed_sockets_number_can_be_reused(
    loop: asyncio.AbstractEventLoop, run: Run, reuse: str
) -> None:
    async def receive_by_reader(sock: socket.socket) -> bytes:
        arrived = asyncio.Event()
        loop.add_reader(sock.fileno(), arrived.set)
        try:
            await arrived.wait()
            return sock.recv(9)
        finally:
            loop.remove_reader(sock.fileno())

    async def receive_by_transport(sock: socket.socket) -> bytes:
        reader, writer = await asyncio.open_connection(sock=sock)
        data = await reader.read(9)
        writer.close()
        await writer.wait_closed()
        return data

    receive: Callable[[socket.socket], Any] = {
        "sock_recv": lambda sock: loop.sock_recv(sock, 9),
        "add_reader": receive_by_reader,
        "transport": receive_by_transport,
    }[reuse]

    async def main() -> None:
        numbers = set()
        for turn in range(50):
            left, right = connected_pair()
            with left, right:
                numbers.add(left.fileno())
                first = asyncio.create_task(loop.sock_recv(left, 9))
                await settle()
                right.send(b"first")
                assert await first == b"first"
            left, right = connected_pair()
            with left, right:
                second = asyncio.create_task(receive(left))
                await settle()
                right.send(b"%d" % turn)
                assert await second == b"%d" % turn
        assert len(numbers) < 50

    run(main())


def test_a_duplicate_of_a_closed_socket_causes_no_events(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        left, right = connected_pair()
        waiting = asyncio.create_task(loop.sock_recv(left, 9))
        await settle()
        right.send(b"first")
        assert await waiting == b"first"
        number = left.fileno()
        with left.dup() as copy, right:
            left.close()
            new_left, new_right = connected_pair()
            with new_left, new_right:
                assert number in (new_left.fileno(), new_right.fileno())
                own = new_left if new_left.fileno() == number else new_right
                other = new_right if own is new_left else new_left
                own.setblocking(False)
                waiting = asyncio.create_task(loop.sock_recv(own, 9))
                await settle()
                right.send(b"for the copy")
                await settle()
                assert not waiting.done()
                other.send(b"second")
                assert await waiting == b"second"
                assert copy.recv(99) == b"for the copy"

    run(main())


def test_data_without_a_waiting_task_stay_in_the_socket(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        for _ in range(20):
            waiting = asyncio.create_task(loop.sock_recv(left, 9))
            await settle()
            right.send(b"asked for")
            assert await waiting == b"asked for"
            right.send(b"not yet")
            await settle()
            right.send(b", now")
            assert await loop.sock_recv(left, 99) == b"not yet, now"

    run(main())


def test_thousands_of_echoes_leak_no_objects(
    loop: asyncio.AbstractEventLoop, run: Run, only_penstock: None
) -> None:
    left, right = connected_pair()
    right.setblocking(False)

    async def echo(count: int) -> None:
        for _ in range(count):
            await loop.sock_sendall(right, await loop.sock_recv(right, 100))

    async def ask(count: int) -> None:
        for number in range(count):
            await loop.sock_sendall(left, b"%d" % number)
            assert await loop.sock_recv(left, 100) == b"%d" % number

    async def main(count: int) -> None:
        await asyncio.gather(echo(count), ask(count))

    def blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    with left, right:
        run(main(200))
        before = blocks()
        run(main(4000))
        assert blocks() - before < 200
    names = [type(obj).__name__ for obj in gc.get_objects()]
    assert "SockOperation" not in names
    assert "DescriptorWaiter" not in names


def test_a_dropped_loop_releases_waiting_tasks(
    new_loop: LoopFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def leave_a_task_waiting() -> list[weakref.ref[Any]]:
        loop = new_loop()
        left, right = connected_pair()

        async def main() -> asyncio.Task[bytes]:
            task = asyncio.create_task(loop.sock_recv(left, 10))
            await settle()
            return task

        with left, right:
            task = loop.run_until_complete(main())
            loop.close()
        return [weakref.ref(left), weakref.ref(task)]

    references = leave_a_task_waiting()
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    assert "Task was destroyed but it is pending" in caplog.text


def test_a_waiting_task_needs_no_other_reference(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair
    received = asyncio.Event()

    async def receive() -> None:
        await loop.sock_recv(left, 10)
        received.set()

    async def main() -> None:
        reference = weakref.ref(asyncio.create_task(receive()))
        await settle()
        gc.collect()
        assert reference() is not None
        right.send(b"x")
        await received.wait()

    run(main())


def test_a_callback_whose_comparison_ends_the_wait_is_not_removed_twice(
    run: Run, pair: Pair, only_penstock: None
) -> None:
    class Callback:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, waiter: Any) -> None:
            self.calls += 1

        def __eq__(self, other: object) -> bool:
            waiter.cancel()
            return True

    waiter: Any = None

    async def main() -> None:
        nonlocal waiter
        receiving = asyncio.get_running_loop().sock_recv(pair[0], 10)
        waiter = receiving.send(None)
        callback = Callback()
        waiter.add_done_callback(callback)
        assert waiter.remove_done_callback(Callback()) == 0
        await settle()
        assert callback.calls == 1
        receiving.close()

    run(main())
