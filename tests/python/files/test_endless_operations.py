"""A loop closes although its operations in flight never complete."""

from __future__ import annotations

import pytest

from tests.python.files.child_script import run_script

SECONDS = 20
ENGINES = ("uring", "threads")
LOOPS = ("penstock.new_event_loop", "asyncio.new_event_loop")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize("kind", ["fifo", "terminal", "socket"])
def test_a_write_without_a_reader_does_not_keep_a_loop_from_closing(
    kind: str, new_loop: str, engine: str
) -> None:
    result = run_script(
        f"""
        import asyncio, os, pty, socket, tempfile
        import penstock
        from penstock.files._backend import current_backend

        kind = {kind!r}
        if kind == "fifo":
            folder = tempfile.mkdtemp()
            path = os.path.join(folder, "fifo")
            os.mkfifo(path)
            ends = os.open(path, os.O_RDWR), -1
        elif kind == "terminal":
            ends = pty.openpty()[::-1]
        else:
            pair = socket.socketpair()
            ends = tuple(end.fileno() for end in pair)
        loop = {new_loop}()

        async def main():
            backend = current_backend()
            backend.write(ends[0], bytes(1 << 20), -1).start()
            for _ in range(3):
                await asyncio.sleep(0)
            assert backend.in_flight

        loop.run_until_complete(main())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        print("closed")
        """,
        seconds=SECONDS,
        PENSTOCK_FILES=engine,
    )
    assert result.stdout == "closed\n", result.stderr


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_child_ends_during_its_parents_read_and_the_read_continues(
    new_loop: str, engine: str
) -> None:
    result = run_script(
        f"""
        import asyncio, os, sys, warnings
        import penstock
        from penstock.files._backend import current_backend

        ends = os.pipe()
        loop = {new_loop}()

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
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        """,
        seconds=SECONDS,
        PENSTOCK_FILES=engine,
    )
    assert result.stdout == "b'bytes'\n", result.stderr


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_child_may_close_its_parents_loop_with_a_read_and_a_closing_in_flight(
    new_loop: str, engine: str
) -> None:
    result = run_script(
        f"""
        import asyncio, os
        import penstock
        from penstock.files._backend import current_backend

        ends = os.pipe()
        loop = {new_loop}()
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
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
            os._exit(7 if settled == [None] else 8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        os.write(ends[1], b"bytes")

        async def go_on():
            print(await in_flight[0])
            await in_flight[1]

        loop.run_until_complete(go_on())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        """,
        seconds=SECONDS,
        PENSTOCK_FILES=engine,
    )
    assert result.stdout == "b'bytes'\n", result.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_a_write_to_a_full_terminal_does_not_block_the_loop(engine: str) -> None:
    result = run_script(
        """
        import asyncio, os, pty, tty
        import penstock
        from penstock.files._backend import current_backend

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

        penstock.run(main())
        """,
        seconds=SECONDS,
        PENSTOCK_FILES=engine,
    )
    assert result.stdout == "True\n", result.stderr
