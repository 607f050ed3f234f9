"""Objects that a program passes, and that the loop later raises, calls or enters, are looked at."""

from __future__ import annotations

import asyncio
import contextvars
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from .conftest import Run
from .socket_pairs import Pair


class Unmakeable(Exception):
    def __init__(self, needed: object) -> None:
        super().__init__(needed)


class Impostor(Exception):
    def __new__(cls) -> Any:
        return "no exception"


LOST = ConnectionResetError("lost")
CAUSE = ValueError("cause")

# The object, and the type that a read raises then, at the latest.
GIVEN: dict[str, tuple[Any, type[BaseException]]] = {
    "instance": (LOST, ConnectionResetError),
    "class": (ConnectionResetError, ConnectionResetError),
    "base exception": (asyncio.CancelledError, asyncio.CancelledError),
    "class that needs an argument": (Unmakeable, TypeError),
    "class that makes no exception": (Impostor, TypeError),
    "str": ("boom", TypeError),
    "int": (5, TypeError),
    "other class": (int, TypeError),
    "object": (object(), TypeError),
    "tuple": ((ConnectionResetError, "lost"), TypeError),
}


@pytest.fixture(params=["asyncio's streams", "native streams"])
def streams(request: pytest.FixtureRequest) -> Any:
    if request.param == "asyncio's streams":
        return asyncio
    import penstock

    return penstock


@asynccontextmanager
async def open_reader(streams: Any) -> AsyncIterator[Any]:
    own, peer = socket.socketpair()
    with peer:
        reader, writer = await streams.open_connection(sock=own)
        yield reader
        writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize(
    "read",
    [
        lambda reader: reader.read(5),
        lambda reader: reader.readexactly(5),
        lambda reader: reader.readline(),
    ],
    ids=["read", "readexactly", "readline"],
)
@pytest.mark.parametrize("waiting", [False, True])
def test_set_exception_of_a_reader_raises_an_exception_or_refuses_the_object(
    run: Run, streams: Any, given: str, read: Callable[[Any], Any], waiting: bool
) -> None:
    exception, expected = GIVEN[given]

    async def main() -> BaseException | None:
        async with open_reader(streams) as reader:
            task = asyncio.ensure_future(read(reader))
            if waiting:
                await asyncio.sleep(0)
            try:
                reader.set_exception(exception)
                await task
            except BaseException as error:
                return error
            finally:
                task.cancel()
                await asyncio.wait([task])
        return None

    raised = run(main())
    assert isinstance(raised, expected)
    assert raised is exception or not isinstance(exception, BaseException)


def test_none_takes_the_exception_of_a_reader_back(run: Run, streams: Any) -> None:
    async def main() -> bytes:
        async with open_reader(streams) as reader:
            reader.set_exception(LOST)
            reader.set_exception(None)
            assert reader.exception() is None
            reader.feed_data(b"data")
            data: bytes = await reader.read(5)
            return data

    assert run(main()) == b"data"


def test_stop_iteration_does_not_look_like_a_result(run: Run, streams: Any) -> None:
    async def main() -> None:
        async with open_reader(streams) as reader:
            reader.set_exception(StopIteration("result"))
            with pytest.raises(RuntimeError, match="StopIteration") as raised:
                await asyncio.create_task(reader.read(5))
            assert isinstance(raised.value.__cause__, StopIteration)

    run(main())


def test_a_readers_exception_keeps_cause_and_traceback_and_gets_the_context(
    run: Run, streams: Any
) -> None:
    async def main() -> None:
        error = ConnectionResetError("lost")
        try:
            raise error from CAUSE
        except ConnectionResetError:
            traceback = error.__traceback__
        async with open_reader(streams) as reader:
            reader.set_exception(error)
            try:
                raise KeyError("first")
            except KeyError as first:
                with pytest.raises(ConnectionResetError) as raised:
                    await reader.read(5)
                assert raised.value.__context__ is first
            assert raised.value.__cause__ is CAUSE
            frames = []
            entry = raised.value.__traceback__
            while entry is not None:
                frames.append(entry)
                entry = entry.tb_next
            assert traceback in frames

    run(main())


# What a native object takes from private callers too: refused where it is passed.
REFUSED: dict[str, Callable[[Any, Any], object]] = {
    "the reason of a loss": lambda _, transport: transport._force_close("boom"),
    "the context of a callback": lambda loop, _: loop.call_soon(print, context="boom"),
    "the context of a timer": lambda loop, _: loop.call_later(1, print, context={}),
    "the context of a posted callback": lambda loop, _: loop.call_soon_threadsafe(
        print, context=contextvars.Context
    ),
    "the information about a socket": lambda loop, _: type(_)(
        loop, socket.socket(), asyncio.Protocol(), None, 5
    ),
    "the protocol of a transport": lambda loop, _: type(_)(loop, socket.socket(), object()),
}


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_object_of_the_wrong_kind_is_refused_where_it_is_passed(
    loop: Any, pair: Pair, case: str
) -> None:
    made = loop.create_future()
    transport = loop._make_socket_transport(pair[0], asyncio.Protocol(), made)
    loop.run_until_complete(made)
    with pytest.raises((TypeError, AttributeError)):
        REFUSED[case](loop, transport)
    assert not transport.is_closing()
    transport.abort()
    loop.run_until_complete(asyncio.sleep(0))


@pytest.mark.usefixtures("only_penstock")
def test_a_wait_refuses_a_context_of_another_kind_and_goes_on(run: Run, streams: Any) -> None:
    async def main() -> None:
        async with open_reader(streams) as reader:
            wait = reader.read(5)
            future = wait.send(None)
            with pytest.raises(TypeError, match="context"):
                future.add_done_callback(print, context=5)
            woken: list[object] = []
            future.add_done_callback(woken.append, context=contextvars.copy_context())
            reader.feed_data(b"data")
            await asyncio.sleep(0)
            assert len(woken) == 1
            with pytest.raises(StopIteration) as returned:
                wait.send(None)
            assert returned.value.value == b"data"

    run(main())


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize("message", ["text", b"bytes"])
def test_a_websocket_that_was_not_started_refuses_to_send(
    loop: asyncio.AbstractEventLoop, message: str | bytes
) -> None:
    from penstock import _core

    connection: Any = _core.WebSocketConnection()
    connection._may_send = True
    for send in (connection.send, connection.write):
        with pytest.raises(RuntimeError, match="not open"):
            send(message)


@pytest.mark.usefixtures("only_penstock")
def test_a_serial_reader_refuses_what_makes_no_exception(loop: Any, run: Run, pair: Pair) -> None:
    from penstock import _core

    async def main() -> None:
        for closed, expected in (
            (lambda: "boom", TypeError),
            (lambda: EOFError, EOFError),
            (lambda: EOFError("closed"), EOFError),
            ("not callable", TypeError),
        ):
            reader: Any = _core.SerialReader(loop, pair[0].fileno())
            reader.close(closed)
            with pytest.raises(expected):
                await reader.receive(1)

    run(main())


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize("cost", [-1, -(2**63)])
def test_a_negative_cost_of_file_work_is_refused(loop: Any, cost: int) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        loop._file_engine().should_yield(cost)
