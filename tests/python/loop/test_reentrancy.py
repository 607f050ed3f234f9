"""Code that the loop calls in the middle of a function comes back into it and changes everything.

Each program runs in an interpreter of its own, which a fault in native code would end.
"""

from __future__ import annotations

import sys
import textwrap

import pytest

from .conftest import RunScript

needs_buffer_methods = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="classes export buffers since Python 3.12"
)


def survives(run_script: RunScript, source: str) -> None:
    done = run_script(source)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr


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


# ---- handles run by hand -------------------------------------------------------------------------


HANDLES = """
import gc, sys, threading

loop = new_loop()
reported = []
# Not a handler, which is called in the handle's context: that may be entered already.
loop.call_exception_handler = lambda context: reported.append(context["exception"])
loop.set_debug({debug})
schedule = {schedule}
"""

SCHEDULE = {
    "soon": ("loop.call_soon", False),
    "soon, in debug mode": ("loop.call_soon", True),
    "from any thread": ("loop.call_soon_threadsafe", False),
    "later": ("lambda *what: loop.call_later(60, *what)", False),
}


@pytest.mark.parametrize(("schedule", "debug"), SCHEDULE.values(), ids=SCHEDULE)
@pytest.mark.parametrize(
    "program",
    {
        "closes": """
            handle = schedule(loop.close)
            handle._run()
            assert loop.is_closed()
            repr(handle)
        """,
        "closes with arguments": """
            handle = schedule(lambda loop, one: loop.close(), loop, 1)
            handle._run()
            handle.cancel()
            assert handle.cancelled()
        """,
        "closes and raises": """
            def callback():
                loop.close()
                raise ValueError

            schedule(callback)._run()
            assert [type(each) for each in reported] == [ValueError]
        """,
        "cancels itself and closes": """
            def callback():
                handle.cancel()
                loop.close()
                gc.collect()

            handle = schedule(callback)
            handle._run()
            assert handle.cancelled() and not reported
        """,
        "closes and drops the loop": """
            def callback():
                global loop
                loop.close()
                del loop
                gc.collect()

            handle = schedule(callback)
            handle._run()
            handle.cancel()
        """,
        "runs itself": """
            def callback():
                ran.append(1)
                handle._run()

            ran = []
            handle = schedule(callback)
            handle._run()
            assert len(ran) == 1
            assert [type(each) for each in reported] == [RuntimeError]
            loop.close()
        """,
        "runs twice, closing": """
            handle = schedule(loop.close)
            handle._run()
            if type(loop) is not asyncio.SelectorEventLoop:  # which runs it again
                handle._run()
        """,
        "is closed by another thread": """
            entered, leave = threading.Event(), threading.Event()

            def callback():
                entered.set()
                leave.wait()

            handle = schedule(callback)
            thread = threading.Thread(target=handle._run)
            thread.start()
            entered.wait()
            loop.close()
            leave.set()
            thread.join()
            assert not reported
        """,
        "is run by another thread while the loop runs it": """
            entered, leave = threading.Event(), threading.Event()

            def callback():
                loop.call_soon_threadsafe(loop.stop)
                entered.set()
                leave.wait()

            handle = schedule(callback)
            thread = threading.Thread(target=handle._run)
            thread.start()
            entered.wait()
            loop.call_later(0.01, leave.set)
            loop.run_forever()
            leave.set()
            thread.join()
            loop.close()
        """,
        "is cancelled by its finalizers": """
            class Argument:
                def __del__(self):
                    handle.cancel()
                    handle._run()
                    loop.close()

            handle = schedule(lambda argument: None, Argument())
            handle.cancel()
            assert loop.is_closed()
        """,
        "ends the program": """
            handle = schedule(sys.exit, 5)
            try:
                handle._run()
            except SystemExit as exc:
                assert exc.code == 5
            else:
                raise AssertionError
            loop.close()
        """,
    }.items(),
    ids=lambda program: program[0],
)
def test_a_handle_run_by_hand(
    run_script: RunScript, schedule: str, debug: bool, program: tuple[str, str]
) -> None:
    survives(
        run_script,
        HANDLES.format(debug=debug, schedule=schedule) + textwrap.dedent(program[1]),
    )
