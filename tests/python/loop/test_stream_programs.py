"""Typical programs on asyncio's streams."""

from __future__ import annotations

import asyncio
import random

import pytest

from .conftest import LoopFactory, Run


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


def test_an_echo_server_serves_fifty_clients(run: Run) -> None:
    async def client(address: tuple[str, int], seed: int) -> None:
        random_bytes = random.Random(seed)
        reader, writer = await asyncio.open_connection(*address)
        for _ in range(10):
            message = random_bytes.randbytes(random_bytes.randrange(1, 20_000))
            writer.write(message)
            await writer.drain()
            assert await reader.readexactly(len(message)) == message
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            address = server.sockets[0].getsockname()
            await asyncio.gather(*(client(address, seed) for seed in range(50)))

    run(main())


def test_a_line_protocol_is_served(run: Run) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            writer.writelines([b"hello ", line])
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for name in (b"ada\n", b"grace\n"):
                writer.write(name)
                assert await reader.readline() == b"hello " + name
            writer.write(b"a,b,")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(reader.readuntil(b"\n"), 0.005)
            writer.write(b"c\n")
            assert await reader.readuntil(b",") == b"hello a,"
            writer.write_eof()
            assert await reader.read() == b"b,c\n"
            writer.close()
            await writer.wait_closed()

    run(main())


def test_drain_pauses_a_fast_writer(run: Run) -> None:
    total = 30_000_000

    async def produce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chunk = bytes(300_000)
        for _ in range(total // len(chunk)):
            writer.write(chunk)
            await writer.drain()
            buffered = writer.transport.get_write_buffer_size()  # type: ignore[attr-defined]
            assert buffered <= 65536 + len(chunk)
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(produce, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            received = 0
            while data := await reader.read(1 << 20):
                received += len(data)
            assert received == total
            writer.close()
            await writer.wait_closed()

    run(main())


def test_a_proxy_copies_both_directions(run: Run) -> None:
    async def main() -> None:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as target:

            async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                onward, back = await asyncio.open_connection(*target.sockets[0].getsockname())

                async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                    while data := await source.read(65536):
                        sink.write(data)
                        await sink.drain()
                    sink.write_eof()

                async with asyncio.TaskGroup() as group:
                    group.create_task(copy(reader, back))
                    group.create_task(copy(onward, writer))
                for stream in (back, writer):
                    stream.close()

            async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                data = bytes(range(256)) * 4000

                async def send() -> None:
                    writer.write(data)
                    await writer.drain()
                    writer.write_eof()

                _, received = await asyncio.gather(send(), reader.read(-1))
                assert received == data
                writer.close()
                await writer.wait_closed()

    run(main())


def test_a_runner_runs_a_stream_program(new_loop: LoopFactory) -> None:
    async def main() -> bytes:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"x")
            answer = await reader.readexactly(1)
            writer.close()
            await writer.wait_closed()
            return answer

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main()) == b"x"
        assert runner.run(main()) == b"x"
