"""Buffers of Python classes that call the loop again while native code exports or releases them.

Each program runs in its own interpreter, because a fault in native code would end it.
"""

from __future__ import annotations

import sys

import pytest

from .conftest import RunScript, survives
from .reentrant_objects import EXPORTER, LOSES_ITS_CONNECTION

needs_buffer_methods = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="classes export buffers since Python 3.12"
)


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
@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(
            """
    operation = SerialReader(loop, left.fileno()).receive_into(exporter)
    operation.send(None)
    exporter.on_release = operation.close
""",
            id="a serial receive",
        ),
        pytest.param(
            """
    source, sink = os.pipe()
    operation = loop._file_engine().read_into(source, exporter, -1)
    exporter.on_release = lambda: operation.when_released(lambda _: None)
""",
            id="a file operation",
        ),
    ],
)
def test_releasing_a_buffer_may_end_the_awaitable_that_releases_it(
    run_script: RunScript, begin: str
) -> None:
    survives(
        run_script,
        EXPORTER
        + f"""
import os
from penstock._core import SerialReader

async def main():
    exporter = Exporter(10)
    references = sys.getrefcount(exporter)
{begin}
    operation.close()
    assert exporter.released == 1, exporter.released
    del operation, exporter.on_release
    assert sys.getrefcount(exporter) == references

loop.run_until_complete(main())
loop.close()
""",
    )


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
except (AttributeError, TypeError):  # asyncio's own failure
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
loop.set_exception_handler(lambda loop, context: None)  # asyncio's own failure
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
