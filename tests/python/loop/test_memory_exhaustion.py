"""Exhausted memory: the caller gets a MemoryError, nothing crashes, and the loop continues."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.python.conftest import not_sanitized

from .conftest import RunScript

limits_memory = not_sanitized("the sanitizer itself reserves terabytes of address space")

EXHAUSTED = """
import gc, json, os, resource, socket, threading

def limit_memory(megabytes):
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 2**20, resource.RLIM_INFINITY))

def unlimit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def start_sender(address, count, tls=None):
    # A separate process, because this one has no memory left.
    pid = os.fork()
    if pid == 0:
        try:
            unix = not isinstance(address, tuple)
            client = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
            client.connect(address)
            if tls is not None:
                client = tls.wrap_socket(client, server_hostname="localhost")
            block = b"x" * 1_000_000
            for _ in range(count // len(block)):
                client.sendall(block)
            client.close()
        except OSError:
            pass
        finally:
            os._exit(0)
    return pid

async def still_works():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"alive\\n")
    answer = await reader.read()
    writer.close()
    server.close()
    return answer == b"alive\\n"
"""


def exhausted(run_script: RunScript, source: str) -> Any:
    """Return the last output of a script, decoded from JSON."""
    done = run_script(EXHAUSTED + source)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


READ_EVERYTHING = """
async def main(start_server):
    loop = asyncio.get_running_loop()
    contexts, outcomes = [], []
    ended = asyncio.Event()
    loop.set_exception_handler(lambda _, context: contexts.append(context))

    async def serve(reader, writer):
        try:
            await reader.readexactly(300_000_000)
        except BaseException as exc:
            outcomes.append(type(exc).__name__)
        writer.close()
        ended.set()

    server = await start_server(serve, "127.0.0.1", 0, limit=2**30)
    pid = start_sender(server.sockets[0].getsockname(), 300_000_000)
    limit_memory(100)
    await ended.wait()
    unlimit_memory()
    server.close()
    await loop.run_in_executor(None, os.waitpid, pid, 0)
    reported = [type(context.get("exception")).__name__ for context in contexts]
    print(json.dumps([outcomes, reported, await still_works()]))
"""


@limits_memory
def test_a_stream_read_without_enough_memory_raises_memory_error(run_script: RunScript) -> None:
    outcomes, reported, works = exhausted(
        run_script,
        READ_EVERYTHING
        + """
loop = new_loop()
loop.run_until_complete(asyncio.wait_for(main(asyncio.start_server), 30))
loop.run_until_complete(loop.shutdown_default_executor())
loop.close()
""",
    )
    assert "MemoryError" in outcomes + reported
    assert set(outcomes + reported) <= {"MemoryError"}
    assert works


@limits_memory
@pytest.mark.parametrize("loop_name", ["penstock"])
def test_a_native_read_without_enough_memory_raises_memory_error(run_script: RunScript) -> None:
    outcomes, reported, works = exhausted(
        run_script,
        READ_EVERYTHING
        + """
import penstock
penstock.run(asyncio.wait_for(main(penstock.start_server), 30))
""",
    )
    assert outcomes == ["MemoryError"]
    assert set(reported) <= {"MemoryError"}
    assert works


@limits_memory
@pytest.mark.parametrize("kind", ["tcp", "unix", "tls", "buffered"])
def test_data_without_enough_memory_close_only_their_connection(
    run_script: RunScript, kind: str
) -> None:
    """The protocol keeps every received byte until memory is exhausted."""
    lost, reported, works = exhausted(
        run_script,
        f"kind = {kind!r}\n"
        """
from tests.python.loop.certificates import client_context, server_context

async def main():
    loop = asyncio.get_running_loop()
    contexts, lost, kept = [], [], []
    ended = asyncio.Event()

    def report(_, context):
        kept.clear()
        contexts.append(context)

    loop.set_exception_handler(report)

    class Keeper(asyncio.Protocol):
        def data_received(self, data):
            kept.append(data)

        def connection_lost(self, exc):
            kept.clear()
            lost.append(type(exc).__name__)
            ended.set()

    class BufferedKeeper(asyncio.BufferedProtocol):
        connection_lost = Keeper.connection_lost

        def get_buffer(self, sizehint):
            kept.append(bytearray(65536))
            return kept[-1]

        def buffer_updated(self, count):
            pass

    protocol = BufferedKeeper if kind == "buffered" else Keeper
    client = None
    if kind == "unix":
        server = await loop.create_unix_server(protocol, "\\0" + os.urandom(8).hex())
    else:
        tls = server_context() if kind == "tls" else None
        client = client_context() if kind == "tls" else None
        server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=tls)
    pid = start_sender(server.sockets[0].getsockname(), 300_000_000, client)
    limit_memory(60)
    await ended.wait()
    unlimit_memory()
    server.close()
    await loop.run_in_executor(None, os.waitpid, pid, 0)
    reported = [type(context.get("exception")).__name__ for context in contexts]
    print(json.dumps([lost, reported, await still_works()]))

loop = new_loop()
loop.run_until_complete(asyncio.wait_for(main(), 30))
loop.run_until_complete(loop.shutdown_default_executor())
loop.close()
""",
    )
    assert lost == ["MemoryError"]
    assert set(reported) == {"MemoryError"}
    assert works


@limits_memory
def test_a_write_without_memory_for_its_copy_affects_nothing_else(
    run_script: RunScript, loop_name: str
) -> None:
    raised, works = exhausted(
        run_script,
        """
async def main():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    data = bytearray(80_000_000)
    limit_memory(40)
    raised = None
    try:
        transport.write(data)
    except MemoryError as exc:
        raised = type(exc).__name__
    unlimit_memory()
    transport.abort()
    peer.close()
    print(json.dumps([raised, await still_works()]))

loop = new_loop()
loop.run_until_complete(asyncio.wait_for(main(), 30))
loop.close()
""",
    )
    # asyncio does not copy since Python 3.12, so it sends later changes of the buffer.
    copies = loop_name == "penstock" or sys.version_info < (3, 12)
    assert raised == ("MemoryError" if copies else None)
    assert works
