"""Receiving by a function, and writing without waiting."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from penstock import websocket

from .libraries import address, echo


async def receive_nothing(connection: websocket.ServerConnection) -> None:
    await connection.wait_closed()


def test_function_gets_each_message_in_order(run: Callable[..., Any]) -> None:
    expected = [str(i) if i % 3 else str(i).encode() for i in range(500)]

    async def main() -> None:
        received: list[str | bytes] = []

        async def collect(connection: websocket.ServerConnection) -> None:
            await connection.for_each(received.append)

        async with websocket.serve(collect, "127.0.0.1", 0) as server:
            async with websocket.connect(address(server)) as connection:
                for message in expected:
                    await connection.send(message)
            await asyncio.gather(*server._tasks)
        assert received == expected

    run(main())


def test_messages_from_before_the_call_come_first(run: Callable[..., Any]) -> None:
    async def burst(connection: websocket.ServerConnection) -> None:
        for i in range(10):
            await connection.send(str(i))

    async def main() -> None:
        async with websocket.serve(burst, "127.0.0.1", 0) as server:
            connection = await websocket.connect(address(server))
            await connection.wait_closed()
            assert await connection.recv() == "0"
            received: list[str] = []
            await connection.for_each(received.append)
            assert received == [str(i) for i in range(1, 10)]

    run(main())


def test_echo_by_a_function(run: Callable[..., Any]) -> None:
    async def answer(connection: websocket.ServerConnection) -> None:
        await connection.for_each(connection.write)

    async def main() -> None:
        async with (
            websocket.serve(answer, "127.0.0.1", 0) as server,
            websocket.connect(address(server)) as connection,
        ):
            for message in ("text", b"binary", "", b"x" * 300_000, "é" * 5000):
                await connection.send(message)
                assert await connection.recv() == message

    run(main())


def test_exception_of_the_function_ends_the_call_and_loses_no_message(
    run: Callable[..., Any],
) -> None:
    async def main() -> None:
        outcome: list[Any] = []

        async def fragile(connection: websocket.ServerConnection) -> None:
            def take(message: str) -> None:
                outcome.append(message)
                if message == "2":
                    raise KeyError(message)

            with pytest.raises(KeyError, match="2"):
                await connection.for_each(take)
            async for message in connection:
                outcome.append(("received", message))

        async with websocket.serve(fragile, "127.0.0.1", 0) as server:
            async with websocket.connect(address(server)) as connection:
                for i in range(5):
                    connection.write(str(i))
            await asyncio.gather(*server._tasks)
        assert outcome == ["0", "1", "2", ("received", "3"), ("received", "4")]

    run(main())


def test_cancelled_call_loses_no_message(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as server,
            websocket.connect(address(server)) as connection,
        ):
            received: list[str] = []
            for i in range(200):
                receiving = asyncio.create_task(connection.for_each(received.append))
                await asyncio.sleep(0)
                connection.write(str(i))
                for _ in range(i % 7):
                    await asyncio.sleep(0)
                receiving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await receiving
            while len(received) < 200:
                received.append(await connection.recv())
            assert received == [str(i) for i in range(200)]

    run(main())


def test_exception_after_the_cancellation_is_reported(run: Callable[..., Any]) -> None:
    async def main() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as server,
            websocket.connect(address(server)) as connection,
        ):
            failure = KeyError("failed")

            def cancel_and_fail(_: str) -> None:
                receiving.cancel()
                raise failure

            receiving = asyncio.create_task(connection.for_each(cancel_and_fail))
            connection.write("one")
            with pytest.raises(asyncio.CancelledError):
                await receiving
            connection.write("two")
            assert await connection.recv() == "two"
        assert [what["exception"] for what in reported] == [failure]

    run(main())


def test_stop_iteration_is_a_runtime_error(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as server,
            websocket.connect(address(server)) as connection,
        ):
            connection.write("one")
            with pytest.raises(RuntimeError, match="StopIteration") as raised:
                await connection.for_each(lambda _: next(iter(())))
            assert isinstance(raised.value.__cause__, StopIteration)

    run(main())


@pytest.mark.parametrize(
    ("kind", "raised"),
    [(asyncio.CancelledError, asyncio.CancelledError), (GeneratorExit, RuntimeError)],
)
def test_cancellation_raised_by_the_function_keeps_the_connection(
    run: Callable[..., Any], kind: type[BaseException], raised: type[BaseException]
) -> None:
    async def main() -> None:
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as server,
            websocket.connect(address(server)) as connection,
        ):

            def fail(_: str) -> None:
                raise kind

            connection.write("one")
            with pytest.raises(raised):
                await connection.for_each(fail)
            connection.write("two")
            assert await connection.recv() == "two"

    run(main())


def test_what_cannot_be_called_takes_no_message(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as server,
            websocket.connect(address(server)) as connection,
        ):
            connection.write("one")
            functions: list[Any] = [None, 5, echo]
            for function in functions:
                with pytest.raises(TypeError, match="does not wait"):
                    await connection.for_each(function)
            assert await connection.recv() == "one"

    run(main())


def test_exit_in_the_function_ends_the_loop(run: Callable[..., Any]) -> None:
    async def main() -> None:
        if "uvloop" in type(asyncio.get_running_loop()).__module__:
            pytest.skip("uvloop reports every exception of data_received and continues")
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as server,
            websocket.connect(address(server)) as connection,
        ):
            connection.write("one")

            def leave(_: str) -> None:
                raise SystemExit(5)

            await connection.for_each(leave)

    with pytest.raises(SystemExit, match="5"):
        run(main())


def test_one_receiver_at_a_time(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with (
            websocket.serve(receive_nothing, "127.0.0.1", 0) as server,
            websocket.connect(address(server)) as connection,
        ):
            first = asyncio.create_task(connection.for_each(print))
            await asyncio.sleep(0)
            with pytest.raises(websocket.ConcurrencyError, match="for_each"):
                await connection.recv()
            with pytest.raises(websocket.ConcurrencyError, match="already receives"):
                await connection.for_each(print)
            first.cancel()
            await asyncio.wait([first])
            second = asyncio.create_task(connection.recv())
            await asyncio.sleep(0)
            with pytest.raises(websocket.ConcurrencyError, match="already receives"):
                await connection.for_each(print)
            second.cancel()

    run(main())


def test_function_runs_in_the_callers_context_and_in_no_task(run: Callable[..., Any]) -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    async def main() -> None:
        seen: list[Any] = []

        async def handle(connection: websocket.ServerConnection) -> None:
            user.set("Ada")

            def take(message: str) -> None:
                seen.append((message, user.get(), asyncio.current_task()))

            await connection.for_each(take)

        async with websocket.serve(handle, "127.0.0.1", 0) as server:
            async with websocket.connect(address(server)) as connection:
                connection.write("one")
            await asyncio.gather(*server._tasks)
        assert seen == [("one", "Ada", None)]

    run(main())


def test_abnormal_end_is_raised(run: Callable[..., Any]) -> None:
    async def main() -> None:
        ends: list[BaseException] = []

        async def handle(connection: websocket.ServerConnection) -> None:
            try:
                await connection.for_each(print)
            except websocket.ConnectionClosedError as end:
                ends.append(end)

        async with websocket.serve(handle, "127.0.0.1", 0) as server:
            connection = await websocket.connect(address(server))
            assert connection.transport is not None
            connection.transport.abort()
            await connection.wait_closed()
            await asyncio.gather(*server._tasks)
        assert len(ends) == 1

    run(main())


def test_function_may_close_the_connection(run: Callable[..., Any]) -> None:
    async def main() -> None:
        closing: list[asyncio.Task[None]] = []

        async def handle(connection: websocket.ServerConnection) -> None:
            def close(_: str) -> None:
                closing.append(asyncio.ensure_future(connection.close(4001)))

            await connection.for_each(close)

        async with websocket.serve(handle, "127.0.0.1", 0) as server:
            connection = await websocket.connect(address(server))
            connection.write("close")
            with pytest.raises(websocket.ConnectionClosedError) as raised:
                await connection.recv()
            assert raised.value.rcvd == websocket.Close(4001, "")
            await asyncio.gather(*closing)

    run(main())


def test_peer_that_does_not_read_stops_the_delivery(run: Callable[..., Any]) -> None:
    total = 600

    async def main() -> None:
        delivered = 0

        async def answer(connection: websocket.ServerConnection) -> None:
            def reply(message: bytes) -> None:
                nonlocal delivered
                delivered += 1
                connection.write(message)

            await connection.for_each(reply)

        async with (
            websocket.serve(answer, "127.0.0.1", 0, compression=None) as server,
            websocket.connect(address(server), compression=None, max_queue=1) as connection,
        ):

            async def send() -> None:
                for i in range(total):
                    await connection.send(i.to_bytes(2, "big") * 50_000)

            sending = asyncio.create_task(send())
            before = -1
            while delivered != before:
                before = delivered
                await asyncio.sleep(0.2)
            assert 0 < delivered < total
            for i in range(total):
                assert await connection.recv() == i.to_bytes(2, "big") * 50_000
            await sending

    run(main())


def test_write_refuses_what_it_cannot_send(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0) as server:
            connection = await websocket.connect(address(server))
            with pytest.raises(TypeError, match="str or bytes-like, not list"):
                connection.write(["a"])  # type: ignore[arg-type]

            release = asyncio.Event()

            async def parts() -> Any:
                yield "one "
                await release.wait()
                yield "message"

            sending = asyncio.create_task(connection.send(parts()))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            with pytest.raises(websocket.ConcurrencyError, match="in fragments"):
                connection.write("another")
            release.set()
            await sending
            assert await connection.recv() == "one message"
            await connection.close()
            with pytest.raises(websocket.ConnectionClosedOK):
                connection.write("late")

    run(main())
