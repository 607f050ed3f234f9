"""A loop closes although its operations in flight never complete."""

from __future__ import annotations

import textwrap

import pytest

from tests.python.files.child_script import run_script

# How each program ends, behind what it does with ``loop`` and the ``backend`` of its operations.
CLOSE = """
loop.run_until_complete(loop.shutdown_asyncgens())
loop.close()
"""
BEGIN = """
import asyncio, os, pty, socket, sys, tempfile, tty, warnings
import penstock
from penstock.files._backend import current_backend
"""

A_WRITE_WITHOUT_A_READER = """
async def main():
    backend = current_backend()
    backend.write(end, bytes(1 << 20), -1).start()
    for _ in range(3):
        await asyncio.sleep(0)
    assert backend.in_flight

loop.run_until_complete(main())
"""
A_FIFO = """
path = os.path.join(tempfile.mkdtemp(), "fifo")
os.mkfifo(path)
end = os.open(path, os.O_RDWR)
"""
A_TERMINAL = """
master, end = pty.openpty()
"""
A_SOCKET = """
pair = socket.socketpair()
end = pair[0].fileno()
"""
A_CHILD_THAT_ENDS_DURING_ITS_PARENTS_READ = """
ends = os.pipe()

async def main():
    backend = current_backend()
    reading = asyncio.ensure_future(backend.read(ends[0], 5, -1))
    while not backend.in_flight:
        await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        warnings.simplefilter("ignore")
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    os.write(ends[1], b"bytes")
    print(await reading)

loop.run_until_complete(main())
"""
A_CHILD_THAT_CLOSES_THE_LOOP_WITH_A_READ_AND_A_CLOSING_IN_FLIGHT = f"""
ends = os.pipe()
settled = []

async def main():
    backend = current_backend()
    reading = backend.read(ends[0], 5, -1).start()
    reading.when_released(settled.append)
    closing = backend.close(ends[0]).start()
    while not backend.in_flight:
        await asyncio.sleep(0)
    return reading, closing

in_flight = loop.run_until_complete(main())
child = os.fork()
if child == 0:
{textwrap.indent(CLOSE, "    ")}
    os._exit(7 if settled == [None] else 8)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
os.write(ends[1], b"bytes")

async def go_on():
    print(await in_flight[0])
    await in_flight[1]

loop.run_until_complete(go_on())
"""
A_WRITE_TO_A_FULL_TERMINAL = """
master, terminal = pty.openpty()
tty.setraw(terminal)
data = os.urandom(1 << 18)

async def main():
    backend = current_backend()
    writing = asyncio.ensure_future(backend.write(terminal, data, -1))
    read = b""
    while len(read) < len(data):
        read += await backend.read(master, 65536, -1)
    assert await writing == len(data)
    print(read == data)

loop.run_until_complete(main())
"""


@pytest.mark.parametrize("engine", ["uring", "threads"])
@pytest.mark.parametrize("new_loop", ["penstock.new_event_loop", "asyncio.new_event_loop"])
@pytest.mark.parametrize(
    ("program", "printed"),
    [
        pytest.param(A_FIFO + A_WRITE_WITHOUT_A_READER, "", id="a write to a FIFO"),
        pytest.param(A_TERMINAL + A_WRITE_WITHOUT_A_READER, "", id="a write to a terminal"),
        pytest.param(A_SOCKET + A_WRITE_WITHOUT_A_READER, "", id="a write to a socket"),
        pytest.param(
            A_CHILD_THAT_ENDS_DURING_ITS_PARENTS_READ,
            "b'bytes'\n",
            id="a child that ends during its parent's read, which continues",
        ),
        pytest.param(
            A_CHILD_THAT_CLOSES_THE_LOOP_WITH_A_READ_AND_A_CLOSING_IN_FLIGHT,
            "b'bytes'\n",
            id="a child that closes its parent's loop with operations in flight",
        ),
        pytest.param(
            A_WRITE_TO_A_FULL_TERMINAL,
            "True\n",
            id="a write to a full terminal, which does not block the loop",
        ),
    ],
)
def test_a_loop_closes_whatever_is_in_flight(
    program: str, printed: str, new_loop: str, engine: str
) -> None:
    source = f'{BEGIN}\nloop = {new_loop}()\n{program}\n{CLOSE}\nprint("closed")\n'
    result = run_script(source, seconds=20, PENSTOCK_FILES=engine)
    assert result.stdout == f"{printed}closed\n", result.stderr
