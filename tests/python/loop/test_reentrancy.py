"""Code called in the middle of a native function calls the loop again and changes its state.

Each program runs in its own interpreter, because a fault in native code would end it.
"""

from __future__ import annotations

import textwrap

import pytest

from .conftest import RunScript, survives
from .reentrant_objects import EXPORTER, LOSES_ITS_CONNECTION

CONNECTED = (
    EXPORTER
    + LOSES_ITS_CONNECTION
    + """
import gc, os

def connect(protocol, sock=left):
    return loop.run_until_complete(loop.create_connection(lambda: protocol, sock=sock))[0]

big = bytes(5_000_000)
"""
)


@pytest.mark.parametrize(
    "program",
    {
        "pause_writing loses the connection and raises": """
            class Losing(Protocol):
                def pause_writing(self):
                    lose(self.transport)
                    raise ValueError

            sys.unraisablehook = lambda unraisable: None
            loop.set_exception_handler(lambda loop, context: None)
            protocol = Losing()
            protocol.transport = transport = connect(protocol)
            try:
                transport.write(big)
                transport.write(b"more")
                transport.writelines([b"more"])
                transport.set_write_buffer_limits(high=1)
                assert transport.get_write_buffer_size() == 0
            except AttributeError:  # asyncio's own failure
                pass
            assert lost == [None]
        """,
        "pause_writing sets another protocol": """
            class Leaving(Protocol):
                def pause_writing(self):
                    transport.set_protocol(Protocol())
                    gc.collect()
                    self.after = 1

            transport = connect(Leaving())
            transport.write(big)
            transport.abort()
            loop.run_until_complete(asyncio.sleep(0.01))
        """,
        "the old protocol's finalizer sets yet another": """
            class Buffered(asyncio.BufferedProtocol):
                def __init__(self): self.got = bytearray(1000)
                def get_buffer(self, hint): return self.got
                def buffer_updated(self, count): received.append(bytes(self.got[:count]))

            class Stubborn(Protocol):
                def __del__(self):
                    transport.set_protocol(Buffered())

            received = []
            protocol = Stubborn()
            transport = connect(protocol)
            del protocol
            transport.set_protocol(Protocol())
            right.send(b"data")
            loop.run_until_complete(asyncio.sleep(0.01))
            assert received == [b"data"]
            transport.abort()
            loop.run_until_complete(asyncio.sleep(0.01))
        """,
        "the protocol's finalizer sets another when the connection is lost": """
            class Stubborn(Protocol):
                def __del__(self):
                    transport.set_protocol(Protocol())
                    transport.write(b"x")
                    transport.abort()
                    finalized.append(1)

            finalized = []
            transport = connect(Stubborn())
            lose(transport)
            gc.collect()
            loop.run_until_complete(asyncio.sleep(0.01))
            assert finalized or transport.get_protocol()
            transport.set_write_buffer_limits(high=1)
            transport.write(big)
        """,
        "isinstance() of a protocol loses the connection": """
            class Asking(Protocol):
                @property
                def __class__(self):
                    if not lost:
                        lose(transport)
                    return Protocol

            transport = connect(Protocol())
            transport.set_protocol(Asking())
            transport.write(big)
            transport.resume_reading()
            loop.run_until_complete(asyncio.sleep(0.01))
        """,
        "eof_received returns an object whose truth value aborts": """
            class Answer:
                def __bool__(self):
                    transport.abort()
                    return True

            class Keeping(Protocol):
                def eof_received(self):
                    return Answer()

            transport = connect(Keeping())
            right.shutdown(socket.SHUT_WR)
            loop.run_until_complete(asyncio.sleep(0.01))
            assert lost == [None]
        """,
        "an exception handler ends the connection": """
            class Raising(Protocol):
                def data_received(self, data): raise ValueError
            def handle(loop, context):
                context["transport"].abort()
                context["transport"].set_protocol(Protocol())
                gc.collect()

            loop.set_exception_handler(handle)
            connect(Raising())
            right.send(b"x")
            loop.run_until_complete(asyncio.sleep(0.01))
            assert len(lost) == 1
        """,
        "the socket's own close calls the transport": """
            class Socket(socket.socket):
                def close(self):
                    super().close()
                    transport.abort()
                    transport.set_protocol(Protocol())
                    transport.write(b"x")
                    transport.get_extra_info("socket")
                    transport.close()

            transport = connect(Protocol(), Socket(fileno=left.detach()))
            lose(transport)
            assert lost == [None]
        """,
        "the socket's own sendto ends the connection": """
            class Socket(socket.socket):
                aborting = False
                def sendto(self, *arguments):
                    if self.aborting:
                        lose(transport)
                        raise OSError
                    return super().sendto(*arguments)

            receiver = socket.socket(type=socket.SOCK_DGRAM)
            receiver.bind(("127.0.0.1", 0))
            sender = Socket(type=socket.SOCK_DGRAM)
            sender.bind(("127.0.0.1", 0))
            transport, _ = loop.run_until_complete(
                loop.create_datagram_endpoint(Protocol, sock=sender))
            sender.aborting = True
            try:
                transport.sendto(b"x", ("localhost", receiver.getsockname()[1]))
            except AttributeError:  # asyncio's own failure
                pass
            assert lost == [None]
        """,
        "fileno() closes the loop": """
            class File:
                def fileno(self):
                    loop.close()
                    return left.fileno()

            try:
                loop.{add_or_remove}
            except (RuntimeError, AttributeError):  # asyncio no longer has a selector
                pass
            assert loop.is_closed()
        """,
        "a callback replaces the other direction's callback": """
            def read():
                loop.remove_reader(left)
                loop.add_writer(left, new)
                loop.call_soon(order.append, "read")

            def new():
                order.append("new")
                if len(order) > 1:
                    loop.stop()

            order = []
            loop.add_reader(left, read)
            loop.add_writer(left, order.append, "old")
            right.send(b"x")
            loop.call_later(10, loop.stop)
            loop.run_forever()
            loop.remove_writer(left)
            assert order[:2] == ["read", "new"], order[:3]
        """,
    }.items(),
    ids=lambda program: program[0],
)
def test_code_called_by_a_transport_may_use_the_transport(
    run_script: RunScript, program: tuple[str, str]
) -> None:
    source = textwrap.dedent(program[1])
    if "{add_or_remove}" in source:
        for call in ("add_reader(File(), print)", "remove_writer(File())"):
            survives(run_script, CONNECTED + source.replace("{add_or_remove}", call))
    else:
        survives(run_script, CONNECTED + source + "\nloop.close()\n")


@pytest.mark.parametrize("loop_name", ["penstock"])
@pytest.mark.parametrize(
    "program",
    {
        "the waiting callback's finalizer sends": """
            class Callback:
                def __call__(self, waiter): pass
                def __del__(self):
                    try:
                        operation.send(None)
                    except ValueError as exc:
                        refused.append(str(exc))

            refused = []
            operation = {operation}
            waiter = operation.send(None)
            waiter.add_done_callback(Callback())
            right.send(b"data")
            try:
                operation.send(None)
            except StopIteration as stop:
                assert stop.value in (b"data", 4), stop.value
            assert refused == ["coroutine already executing"], refused
        """,
        "comparing callbacks ends the wait": """
            class Callback:
                def __call__(self, waiter): pass
                def __eq__(self, other):
                    operation.close()
                    gc.collect()
                    return True
                __hash__ = None

            operation = {operation}
            waiter = operation.send(None)
            waiter.add_done_callback(Callback())
            waiter.remove_done_callback(Callback())
            assert waiter.remove_done_callback(print) == 0
        """,
    }.items(),
    ids=lambda program: program[0],
)
@pytest.mark.parametrize(
    "operation",
    [
        "loop.sock_recv(left, 10)",
        "loop.sock_recv_into(left, bytearray(10))",
        "_core.SerialReader(loop, left.fileno()).receive(10)",
    ],
)
def test_callbacks_of_an_awaitable_may_step_or_close_it(
    run_script: RunScript, program: tuple[str, str], operation: str
) -> None:
    source = textwrap.dedent(program[1]).replace("{operation}", operation)
    survives(
        run_script,
        CONNECTED
        + f"""
from penstock import _core

async def main():
    global operation
{textwrap.indent(source, "    ")}

loop.run_until_complete(main())
loop.close()
""",
    )


def test_a_connect_is_not_completed_by_an_event_of_its_predecessor(run_script: RunScript) -> None:
    """A task connects again in the step that receives the failure.

    The new socket has the old descriptor's number, and the event of the failure also says writable.
    """
    survives(
        run_script,
        """
import errno, socket

loop = new_loop()

async def main():
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    waiting = []  # until the backlog is full, and a connect stays pending
    while True:
        client = socket.socket()
        client.setblocking(False)
        waiting.append(client)
        client.connect_ex(full.getsockname())
        await asyncio.sleep(0.02)
        if client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            try:
                client.getpeername()
            except OSError as exc:
                assert exc.errno == errno.ENOTCONN
                break

    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    async def fill():
        await loop.sock_sendall(ours, bytes(10_000_000))

    async def reconnect():
        nonlocal ours
        try:
            await loop.sock_recv(ours, 1)
        except ConnectionError:
            pass
        number = ours.fileno()
        filling.cancel()
        ours.close()
        again = socket.socket()
        assert again.fileno() == number
        again.setblocking(False)
        await loop.sock_connect(again, full.getsockname())
        again.getpeername()

    filling = asyncio.create_task(fill())
    await asyncio.sleep(0)
    task = asyncio.create_task(reconnect())
    await asyncio.sleep(0.01)
    theirs.close()
    done, _ = await asyncio.wait([task], timeout=0.2)
    assert not done, task
    task.cancel()
    await asyncio.gather(task, filling, return_exceptions=True)
    for each in (full, *waiting):
        each.close()

loop.run_until_complete(main())
loop.close()
""",
    )


@pytest.mark.parametrize("loop_name", ["penstock"])
@pytest.mark.parametrize(
    "calls",
    [
        [
            "loop.call_soon(print)",
            "loop.call_soon(print, 1, 2)",
            "loop.call_soon_threadsafe(print)",
            "loop.call_later(1, print, 1, 2)",
            "loop.add_reader(left, print, 1, 2)",
            "loop.add_writer(left.fileno(), print)",
            "loop.remove_reader(left)",
        ],
        [
            "loop.sock_recv(left, 10).send(None)",
            "loop.sock_recv_into(left, bytearray(10)).send(None)",
            "loop.sock_sendall(left, big).send(None)",
            "datagrams.sendto(bytearray(10), ('127.0.0.1', 9))",
            "datagrams.sendto(b'x', ('localhost', 9))",
            "datagrams.abort()",
        ],
        [
            "transport.write(bytearray(big))",
            "transport.writelines([big, bytearray(10), big])",
            "transport.set_protocol(Buffered())",
            "transport.get_extra_info('socket')",
            "transport.get_extra_info('peername')",
            "transport.abort()",
            "transport.close()",
            "transport.pause_reading()",
        ],
    ],
    ids=["scheduling", "sock calls and datagrams", "transport"],
)
def test_garbage_that_closes_the_loop_is_collected_within_a_call(
    run_script: RunScript, calls: list[str]
) -> None:
    """Before Python 3.12, any allocation may collect garbage."""
    survives(
        run_script,
        """
import gc, socket, sys, warnings

class Closer:
    def __init__(self):
        self.itself = self
    def __del__(self):
        loop.close()

class Buffered(asyncio.BufferedProtocol):
    pass

def perform(call, allocations):
    global loop, left, transport, datagrams
    loop = new_loop()
    loop.set_exception_handler(lambda loop, context: None)
    left, right = socket.socketpair()
    left.setblocking(False)
    first, second = socket.socketpair()
    transport, _ = loop.run_until_complete(
        loop.create_connection(asyncio.Protocol, sock=first))
    datagrams, _ = loop.run_until_complete(
        loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)))
    gc.collect()
    gc.disable()
    Closer()
    gc.set_threshold(allocations)
    gc.enable()
    try:
        call()
    except (RuntimeError, StopIteration, BlockingIOError):
        pass  # of a closed loop
    gc.set_threshold(0)
    gc.collect()
    loop.close()
    for sock in (left, right, first, second):
        sock.close()

big = bytes(1_000_000)
warnings.simplefilter("ignore")
gc.freeze()
for call in CALLS:
    print(call, flush=True)
    for allocations in range(1, 13):
        perform(eval(f"lambda: {call}"), allocations)
""".replace("CALLS", repr(calls)),
    )
