"""Peers, signals, forks and closes at the worst moment: the loop stays bounded and usable."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import RunScript


def result_of(run_script: RunScript, source: str) -> Any:
    """Return the last output of a script, decoded from JSON."""
    done = run_script(source)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- peers that do not read ----------------------------------------------------------------------

NEVER_READS = """
import json, socket

def buffered(sock, queue):
    sock.setsockopt(socket.SOL_SOCKET, queue, 32768)

async def main(start_server, open_connection):
    blocked, sizes, ended = set(), [], []

    async def serve(reader, writer):
        buffered(writer.get_extra_info("socket"), socket.SO_SNDBUF)
        try:
            while True:
                writer.write(b"x" * 16384)
                sizes.append(writer.transport.get_write_buffer_size())
                drained = asyncio.ensure_future(writer.drain())
                await asyncio.wait([drained], timeout=0.1)
                if not drained.done():
                    blocked.add(writer)
                await drained
                blocked.discard(writer)
        except ConnectionError:
            ended.append(writer)

    server = await start_server(serve, "127.0.0.1", 0)
    clients = []
    for _ in range(20):
        client = socket.socket()
        buffered(client, socket.SO_RCVBUF)
        client.connect(server.sockets[0].getsockname())
        clients.append(client)
    written = -1
    while len(blocked) < len(clients) or len(sizes) != written:
        assert len(sizes) < 5000, "it continues to write to a peer that does not read"
        written = len(sizes)
        await asyncio.sleep(0.1)
    for client in clients:
        client.close()
    while len(ended) < len(clients):
        await asyncio.sleep(0.01)
    server.close()
    print(json.dumps(max(sizes)))
"""


def test_a_peer_that_never_reads_pauses_its_writer_with_bounded_memory(
    run_script: RunScript,
) -> None:
    largest = result_of(
        run_script,
        NEVER_READS
        + """
loop = new_loop()
loop.run_until_complete(main(asyncio.start_server, asyncio.open_connection))
loop.close()
""",
    )
    # asyncio's high-water mark, and the chunk that exceeded it.
    assert largest <= 65536 + 16384


@pytest.mark.parametrize("loop_name", ["penstock"])
def test_a_native_writer_is_paused_in_the_same_way(run_script: RunScript) -> None:
    largest = result_of(
        run_script,
        NEVER_READS
        + """
import penstock
penstock.run(main(penstock.start_server, penstock.open_connection))
""",
    )
    assert largest <= 65536 + 16384


FLOODED = """
import json, socket, threading

def flood(address, counts):
    with socket.create_connection(address) as client:
        client.setblocking(False)
        sent = 0
        try:
            while True:
                sent += client.send(b"x" * 65536)
        except BlockingIOError:
            pass
        client.settimeout(0.3)
        try:
            while sent < 500_000_000:
                sent += client.send(b"x" * 65536)
        except TimeoutError:
            pass
        counts.append(sent)

async def main(start_server):
    counts = []
    never = asyncio.Event()
    async def serve(reader, writer):
        await never.wait()
        writer.close()
    server = await start_server(serve, "127.0.0.1", 0, limit=65536)
    address = server.sockets[0].getsockname()
    await asyncio.to_thread(flood, address, counts)
    never.set()
    server.close()
    print(json.dumps(counts[0]))
"""


def test_an_unread_flood_stays_in_the_kernel(run_script: RunScript) -> None:
    sent = result_of(
        run_script,
        FLOODED
        + """
loop = new_loop()
loop.run_until_complete(main(asyncio.start_server))
loop.run_until_complete(loop.shutdown_default_executor())
loop.close()
""",
    )
    # Two sockets hold a few megabytes. Without a limit, the peer could send everything.
    assert sent < 100_000_000


@pytest.mark.parametrize("loop_name", ["penstock"])
def test_an_unread_flood_stays_in_the_kernel_with_native_streams(run_script: RunScript) -> None:
    sent = result_of(
        run_script,
        FLOODED
        + """
import penstock
penstock.run(main(penstock.start_server))
""",
    )
    assert sent < 100_000_000


# ---- closing in the middle -----------------------------------------------------------------------


def test_a_loop_closed_with_all_operations_in_progress_keeps_the_process_intact(
    run_script: RunScript, loop_name: str
) -> None:
    done = run_script(
        """
        import gc, signal, socket, ssl, sys, warnings
        import trustme
        warnings.simplefilter("ignore")
        native = sys.argv[1] == "penstock"

        authority = trustme.CA()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost").configure_cert(context)

        async def wait_for_more(reader, writer):
            writer.write(b"x" * 3_000_000)
            await reader.readexactly(10)

        async def begin_everything(loop):
            keep = []
            for start_server, options in [
                (asyncio.start_server, {}),
                (asyncio.start_server, {"ssl": context}),
                *([(penstock.start_server, {}), (penstock.start_server, {"ssl": context})]
                  if native else []),
            ]:
                server = await start_server(wait_for_more, "127.0.0.1", 0, **options)
                client = socket.create_connection(server.sockets[0].getsockname())
                client.setblocking(False)
                # In the TLS case the handshake stops after its first byte.
                client.send(bytes([22]))
                keep += [server, client]
            left, right = socket.socketpair()
            listener = socket.create_server(("127.0.0.1", 0))
            for end in (left, right, listener):
                end.setblocking(False)
            keep += [left, right, listener]
            waiting = [
                loop.sock_recv(left, 10),
                loop.sock_sendall(left, b"x" * 10_000_000),
                loop.sock_accept(listener),
            ]
            keep += [loop.create_task(coroutine) for coroutine in waiting]
            loop.add_reader(right, bool)
            loop.add_signal_handler(signal.SIGUSR1, bool)
            loop.run_in_executor(None, int)
            loop.call_later(1000, bool)
            datagrams, _ = await loop.create_datagram_endpoint(
                asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
            )
            datagrams.sendto(b"to itself", datagrams.get_extra_info("sockname"))
            process = await asyncio.create_subprocess_exec(
                "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            process.stdin.write(b"x" * 3_000_000)
            keep += [datagrams, process]
            for _ in range(5):
                await asyncio.sleep(0)
            return keep

        if native:
            import penstock

        for order in range(4):
            loop = new_loop()
            loop.set_exception_handler(lambda *_: None)
            keep = loop.run_until_complete(begin_everything(loop))
            if order % 2:
                loop.close()
            if order >= 2:
                keep.clear()
                gc.collect()
            loop.close()
            del loop, keep
            gc.collect()
        print("well")
        """,
        loop_name,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "well\n"


CLOSING = """
import gc, json, socket, sys, warnings
warnings.simplefilter("ignore")

EVENTS = ["connection_made", "data_received", "eof_received", "pause_writing",
          "resume_writing", "connection_lost"]

def protocol_that(at, action):
    class Acting(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
            transport.write(b"x" * 1_000_000)
            self.act("connection_made")
        def data_received(self, data):
            self.act("data_received")
        def eof_received(self):
            self.act("eof_received")
        def pause_writing(self):
            self.act("pause_writing")
        def resume_writing(self):
            self.act("resume_writing")
        def connection_lost(self, exc):
            self.act("connection_lost")
            lost.append(at)
        def act(self, name):
            if name == at:
                acted.append(name)
                action(self.transport)
    return Acting

def listening():
    # Small buffers, which accepted sockets inherit, so that a large write fills them.
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
    return listener

def talk(address):
    with socket.create_connection(address) as client:
        client.settimeout(30)
        try:
            client.sendall(b"hello")
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except OSError:
            pass

acted, lost = [], []
"""


@pytest.mark.parametrize(
    "action",
    [
        "transport.close",
        "transport.abort",
        "server.close",
        "everything",
    ],
)
def test_closing_in_every_callback_ends_each_connection_once(
    run_script: RunScript, action: str
) -> None:
    acted, lost = result_of(
        run_script,
        CLOSING
        + f"""
async def main():
    loop = asyncio.get_running_loop()
    for name in EVENTS:
        def act(transport):
            for step in {action!r}.replace("everything", "server.close transport.close "
                                           "transport.abort").split():
                subject, method = step.split(".")
                getattr(server if subject == "server" else transport, method)()
        server = await loop.create_server(protocol_that(name, act), sock=listening())
        await asyncio.to_thread(talk, server.sockets[0].getsockname())
        while lost[-1:] != [name]:
            await asyncio.sleep(0)
        server.close()
    await asyncio.sleep(0)

loop = new_loop()
loop.run_until_complete(asyncio.wait_for(main(), 30))
loop.run_until_complete(loop.shutdown_default_executor())
loop.close()
print(json.dumps([acted, lost]))
""",
    )
    assert sorted(lost) == sorted(
        [
            "connection_made",
            "data_received",
            "eof_received",
            "pause_writing",
            "resume_writing",
            "connection_lost",
        ]
    )
    assert acted == lost


@pytest.mark.parametrize("how", ["stop", "raise"])
def test_the_loop_may_be_stopped_in_every_callback_and_closed(
    run_script: RunScript, how: str
) -> None:
    """The loop is closed with the connection still open, and the connection is collected."""
    acted = result_of(
        run_script,
        CLOSING
        + f"""
import threading

def leave(transport):
    if {how!r} == "stop":
        asyncio.get_running_loop().stop()
    else:
        raise KeyboardInterrupt

for name in EVENTS:
    loop = new_loop()
    server = loop.run_until_complete(
        loop.create_server(protocol_that(name, leave), sock=listening())
    )
    thread = threading.Thread(target=talk, args=[server.sockets[0].getsockname()])
    thread.start()
    try:
        loop.run_forever()
    except KeyboardInterrupt:
        pass
    loop.close()
    del server, loop
    gc.collect()
    thread.join()
print(json.dumps(acted))
""",
    )
    assert acted == [
        "connection_made",
        "data_received",
        "eof_received",
        "pause_writing",
        "resume_writing",
        "connection_lost",
    ]


# ---- signals and forks ---------------------------------------------------------------------------


def test_concurrent_operations_under_frequent_signals_are_exact(
    run_script: RunScript, loop_name: str
) -> None:
    done = run_script(
        """
        import itertools, os, signal, socket, sys
        if sys.argv[1] == "penstock":
            import penstock as streams
        else:
            streams = asyncio
        handled = itertools.count()
        signal.signal(signal.SIGALRM, lambda *_: next(handled))
        data = bytes(range(256)) * 8192

        async def by_streams():
            async def echo(reader, writer):
                while chunk := await reader.read(65536):
                    writer.write(chunk)
                    await writer.drain()
                writer.close()

            server = await streams.start_server(echo, "127.0.0.1", 0)
            reader, writer = await streams.open_connection(*server.sockets[0].getsockname())
            sending = asyncio.ensure_future(send(writer))
            answer = await reader.readexactly(len(data))
            await sending
            writer.close()
            server.close()
            return answer == data

        async def send(writer):
            writer.write(data)
            await writer.drain()

        async def by_sockets():
            loop = asyncio.get_running_loop()
            left, right = socket.socketpair()
            left.setblocking(False)
            right.setblocking(False)
            sending = asyncio.ensure_future(loop.sock_sendall(left, data))
            received = bytearray()
            while len(received) < len(data):
                received += await loop.sock_recv(right, 10_000)
            await sending
            left.close()
            right.close()
            return received == data

        async def by_datagrams():
            loop = asyncio.get_running_loop()
            queue = asyncio.Queue()
            class Receiver(asyncio.DatagramProtocol):
                def datagram_received(self, data, address):
                    queue.put_nowait(data)
            incoming, _ = await loop.create_datagram_endpoint(
                Receiver, local_addr=("127.0.0.1", 0)
            )
            outgoing, _ = await loop.create_datagram_endpoint(
                Receiver, remote_addr=incoming.get_extra_info("sockname")
            )
            seen = []
            for number in range(200):
                outgoing.sendto(b"%d" % number)
                seen.append(int(await queue.get()))
            incoming.close()
            outgoing.close()
            return seen == list(range(200))

        async def by_children():
            process = await asyncio.create_subprocess_exec(
                "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await process.communicate(data)
            return out == data and process.returncode == 0

        async def by_threads():
            results = await asyncio.gather(
                *(asyncio.to_thread(pow, 2, number) for number in range(200))
            )
            return results == [2**number for number in range(200)]

        async def by_timers():
            loop = asyncio.get_running_loop()
            order = []
            now = loop.time()
            for delay in (0.03, 0.01, 0.02):
                loop.call_at(now + delay, order.append, delay)
            await asyncio.sleep(0.05)
            return order == [0.01, 0.02, 0.03]

        async def main():
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            try:
                works = [by_streams, by_sockets, by_datagrams, by_children, by_threads, by_timers]
                return await asyncio.gather(*(work() for work in works))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

        loop = new_loop()
        print(loop.run_until_complete(asyncio.wait_for(main(), 30)), next(handled) > 0)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        """,
        loop_name,
    )
    assert (done.returncode, done.stdout) == (0, f"{[True] * 6} True\n"), done.stderr


def test_forks_in_a_thread_do_not_affect_the_parents_connections(
    run_script: RunScript, loop_name: str
) -> None:
    """Children that end at once, directly or through an exec, during traffic."""
    done = run_script(
        """
        import os, sys, threading, warnings
        warnings.simplefilter("ignore")
        if sys.argv[1] == "penstock":
            import penstock as streams
        else:
            streams = asyncio

        def fork_all_the_time(stopped, codes):
            turn = 0
            while not stopped.wait(0.001):
                turn += 1
                pid = os.fork()
                if pid == 0:
                    if turn % 2:
                        os._exit(7)
                    try:
                        os.execv("/bin/sh", ["sh", "-c", "exit 7"])
                    finally:
                        os._exit(1)
                codes.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

        async def echo(reader, writer):
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
            writer.close()

        async def client(address):
            for turn in range(20):
                reader, writer = await streams.open_connection(*address)
                for _ in range(20):
                    writer.write(b"x" * 1000)
                    await reader.readexactly(1000)
                writer.write_eof()
                # The end is seen although children held copies of the descriptor.
                assert await reader.read() == b""
                writer.close()

        async def main():
            stopped, codes = threading.Event(), set()
            thread = threading.Thread(target=fork_all_the_time, args=[stopped, codes])
            thread.start()
            server = await streams.start_server(echo, "127.0.0.1", 0)
            try:
                address = server.sockets[0].getsockname()
                await asyncio.gather(*(client(address) for _ in range(3)))
            finally:
                stopped.set()
                thread.join()
            server.close()
            assert codes == {7}, codes

        loop = new_loop()
        loop.run_until_complete(asyncio.wait_for(main(), 30))
        loop.close()
        print("well")
        """,
        loop_name,
    )
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
