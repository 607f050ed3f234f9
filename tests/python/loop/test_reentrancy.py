"""Code that the loop calls in the middle of a function comes back into it and changes everything.

Each program runs in an interpreter of its own, which a fault in native code would end.
"""

from __future__ import annotations

import sys
import textwrap

import pytest

from .conftest import RunScript, survives

needs_buffer_methods = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="classes export buffers since Python 3.12"
)


# ---- buffers of Python classes -------------------------------------------------------------------


EXPORTER = """
import socket, sys

class Exporter:
    on_export = on_release = staticmethod(lambda: None)

    def __init__(self, size):
        self.data = bytearray(size)
        self.released = 0

    def __buffer__(self, flags):
        self.on_export()
        return memoryview(self.data)

    def __release_buffer__(self, view):
        self.released += 1
        if self.released < 5:
            self.on_release()

loop = new_loop()
left, right = socket.socketpair()
left.setblocking(False)
right.setblocking(False)
"""


@needs_buffer_methods
@pytest.mark.parametrize("loop_name", ["penstock"])
@pytest.mark.parametrize("ending", ["close", "throw"])
def test_releasing_a_buffer_may_end_the_operation_that_releases_it(
    run_script: RunScript, ending: str
) -> None:
    survives(
        run_script,
        EXPORTER
        + f"""
exporter = Exporter(10_000_000)
references = sys.getrefcount(exporter)
operation = loop.sock_sendall(left, exporter)
operation.send(None)

def end_again():
    operation.close()
    try:
        operation.throw(ValueError)
    except RuntimeError:
        pass

exporter.on_release = end_again
try:
    operation.{ending}({"ValueError" if ending == "throw" else ""})
except ValueError:
    pass
assert exporter.released == 1, exporter.released
del operation, exporter.on_release
assert sys.getrefcount(exporter) == references
loop.close()
""",
    )


@needs_buffer_methods
@pytest.mark.parametrize("loop_name", ["penstock"])
def test_releasing_a_buffer_may_end_the_serial_receive_that_releases_it(
    run_script: RunScript,
) -> None:
    survives(
        run_script,
        EXPORTER
        + """
from penstock._core import SerialReader

async def main():
    exporter = Exporter(10)
    references = sys.getrefcount(exporter)
    receive = SerialReader(loop, left.fileno()).receive_into(exporter)
    receive.send(None)
    exporter.on_release = receive.close
    receive.close()
    assert exporter.released == 1, exporter.released
    del receive, exporter.on_release
    assert sys.getrefcount(exporter) == references

loop.run_until_complete(main())
loop.close()
""",
    )


@needs_buffer_methods
@pytest.mark.parametrize("loop_name", ["penstock"])
def test_releasing_a_buffer_may_end_the_file_operation_that_releases_it(
    run_script: RunScript,
) -> None:
    survives(
        run_script,
        EXPORTER
        + """
import os

async def main():
    exporter = Exporter(10)
    references = sys.getrefcount(exporter)
    source, sink = os.pipe()
    reading = loop._file_engine().read_into(source, exporter, -1)
    exporter.on_release = lambda: reading.when_settled(lambda _: None)
    reading.close()
    assert exporter.released == 1, exporter.released
    del reading, exporter.on_release
    assert sys.getrefcount(exporter) == references

loop.run_until_complete(main())
loop.close()
""",
    )


LOSES_ITS_CONNECTION = """
def lose(transport):
    transport.abort()
    while transport.get_protocol() is not None and not lost:
        loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))

lost = []
Protocol = type("Protocol", (asyncio.Protocol, asyncio.DatagramProtocol), {
    "connection_lost": lambda self, exc: lost.append(exc),
    "error_received": lambda self, exc: print(exc),
})

class Data(bytes):
    def __buffer__(self, flags):
        lose(transport)
        return memoryview(bytes(100))
"""


@needs_buffer_methods
@pytest.mark.parametrize("call", ["write(Data(b'x'))", "writelines([Data(b'x')])"])
def test_exporting_written_data_may_lose_the_connection(run_script: RunScript, call: str) -> None:
    survives(
        run_script,
        EXPORTER
        + LOSES_ITS_CONNECTION
        + f"""
transport, _ = loop.run_until_complete(loop.create_connection(Protocol, sock=left))
try:
    transport.{call}
except (AttributeError, TypeError):  # asyncio's own end of it
    pass
assert lost == [None]
loop.close()
""",
    )


@needs_buffer_methods
@pytest.mark.parametrize("connected", [True, False])
def test_exporting_a_datagram_may_lose_the_connection(
    run_script: RunScript, connected: bool
) -> None:
    survives(
        run_script,
        EXPORTER
        + LOSES_ITS_CONNECTION
        + f"""
receiver = socket.socket(type=socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
remote = receiver.getsockname() if {connected} else None
loop.set_exception_handler(lambda loop, context: None)  # asyncio's own end of it
transport, _ = loop.run_until_complete(loop.create_datagram_endpoint(
    Protocol, local_addr=("127.0.0.1", 0), remote_addr=remote))
try:
    transport.sendto(Data(b"x"), None if {connected} else receiver.getsockname())
except AttributeError:
    pass
assert lost == [None]
loop.close()
""",
    )


def test_comparing_an_address_may_lose_the_connection(run_script: RunScript) -> None:
    survives(
        run_script,
        EXPORTER
        + LOSES_ITS_CONNECTION
        + """
class Address(tuple):
    def __eq__(self, other):
        lose(transport)
        return True
    __hash__ = tuple.__hash__

receiver = socket.socket(type=socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
loop.set_exception_handler(lambda loop, context: None)
transport, _ = loop.run_until_complete(loop.create_datagram_endpoint(
    Protocol, remote_addr=receiver.getsockname()))
transport.sendto(b"x", Address(receiver.getsockname()))
assert lost == [None]
loop.close()
""",
    )


@needs_buffer_methods
@pytest.mark.parametrize("emptied", ["items.clear()", "del items[1:]", "items.extend([b'more'])"])
def test_exporting_a_line_may_change_the_list_of_lines(run_script: RunScript, emptied: str) -> None:
    survives(
        run_script,
        EXPORTER
        + f"""
class Line(bytes):
    def __buffer__(self, flags):
        {emptied}
        return memoryview(bytes(self))

transport, _ = loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=left))
items = [Line(b"first"), b"second", bytearray(b"third"), b"4" * 1000]
transport.writelines(items)
right.recv(10_000)
loop.close()
""",
    )


# ---- protocols, descriptors and awaitables that come back ----------------------------------------


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
            except AttributeError:  # asyncio's own end of it
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
        "asking what a protocol is loses the connection": """
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
        "whether it stays open is asked of an object that aborts": """
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
        "a handler of exceptions ends the connection": """
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
        "the socket's own close comes back": """
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
            except AttributeError:  # asyncio's own end of it
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
            except (RuntimeError, AttributeError):  # asyncio has no selector any more
                pass
            assert loop.is_closed()
        """,
        "a callback replaces the other side's": """
            def read():
                loop.remove_reader(left)
                loop.add_writer(left, order.append, "new")
                loop.call_soon(order.append, "read")

            order = []
            loop.add_reader(left, read)
            loop.add_writer(left, order.append, "old")
            right.send(b"x")
            loop.call_later(0.01, loop.stop)
            loop.run_forever()
            loop.remove_writer(left)
            assert order[:2] == ["read", "new"], order[:3]
        """,
    }.items(),
    ids=lambda program: program[0],
)
def test_a_program_comes_back(run_script: RunScript, program: tuple[str, str]) -> None:
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
def test_an_awaitable_stepped_by_hand(
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


def test_a_connect_is_not_done_by_its_predecessors_event(run_script: RunScript) -> None:
    """A task connects again in the very step in which it learns of the end.

    The new socket has the old one's number, and the event that told of the end says writable too.
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
    waiting = []  # until its backlog is full, and connecting goes on in the background
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


# ---- finalizers ----------------------------------------------------------------------------------


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
    """Before Python 3.12 any allocation may collect garbage, wherever it is made."""
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
