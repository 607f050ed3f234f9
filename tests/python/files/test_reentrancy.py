"""Python code that runs in the middle of a file operation may call anything.

Such code runs where arguments are converted, where buffers and paths are released, and where a
completion resumes a task or calls a callback. Each program runs in its own interpreter, because a
defect here crashes or hangs.
"""

from __future__ import annotations

import sys
import textwrap

import pytest

from tests.python.files.child_script import run_script

SECONDS = 20
LOOPS = ("penstock.new_event_loop", "asyncio.new_event_loop")

PREPARE = """
import asyncio, gc, os, sys, tempfile, warnings
import penstock
from penstock import files
from penstock.files._backend import current_backend

folder = tempfile.mkdtemp()
path = os.path.join(folder, "file")
with open(path, "wb") as file:
    file.write(b"content")
fd = os.open(path, os.O_RDWR)

async def until(condition):
    while not condition():
        await asyncio.sleep(0)
"""


def run(body: str, new_loop: str = LOOPS[0], engine: str = "auto") -> str:
    """Run a program whose ``main`` has this body, and return its output."""
    source = "\n".join(
        [
            PREPARE,
            "async def main():",
            "    backend = current_backend()",
            textwrap.indent(textwrap.dedent(body), "    "),
            f"with asyncio.Runner(loop_factory={new_loop}) as runner:",
            "    runner.run(main())",
            "    runner.get_loop().set_debug(False)",
            'print("end")',
        ]
    )
    result = run_script(source, seconds=SECONDS, PENSTOCK_FILES=engine)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("end\n")
    return result.stdout.removesuffix("end\n")


needs_python_buffers = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="__buffer__ of Python classes came with CPython 3.12"
)


@pytest.mark.parametrize("call", ["read_file(path)", "read(fd, 7, 0)", "read(fd, 70, 0)"])
def test_a_result_of_a_cancelled_await_is_delivered_once(call: str) -> None:
    printed = run(
        f"""
        operation = backend.{call}
        task = asyncio.ensure_future(operation)
        operation.start()
        task.cancel()
        await asyncio.wait([task])
        for _ in range(3):
            operation.when_released(print)
        operation.close()
        operation.when_released(print)
        """
    )
    assert printed == "b'content'\nNone\nNone\nNone\n"


@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize("call", ["read_file(path)", "stat(path)", "read(ends[0], 5, -1)"])
def test_the_result_of_a_closed_operation_is_none(call: str, new_loop: str) -> None:
    printed = run(
        f"""
        ends = os.pipe()
        path = os.path.join(folder, "file")
        operation = backend.{call}
        asking = asyncio.ensure_future(asyncio.sleep(0))
        await asking
        operation.start()
        operation.close()
        os.write(ends[1], b"bytes")
        await until(lambda: not operation.in_flight)
        operation.when_released(lambda result: print("settled"))
        operation.when_released(lambda result: print("settled"))
        """,
        new_loop,
    )
    assert printed == "settled\nsettled\n"


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_callback_may_register_another_and_close_the_operation(new_loop: str) -> None:
    printed = run(
        """
        ends = os.pipe()
        operation = backend.read(ends[0], 5, -1).start()

        def settled(result):
            print(result)
            operation.when_released(lambda result: print("once more", result))
            operation.close()

        operation.when_released(settled)
        operation.close()
        await until(lambda: not operation.in_flight)
        """,
        new_loop,
    )
    assert printed == "None\nonce more None\n"


@pytest.mark.parametrize("engine", ["uring", "threads"])
@pytest.mark.parametrize("new_loop", LOOPS)
def test_an_engine_cannot_be_shut_down_from_its_own_callback(new_loop: str, engine: str) -> None:
    printed = run(
        """
        ends = os.pipe()
        operation = backend.read(ends[0], 5, -1).start()

        def settled(result):
            try:
                backend.shutdown()
            except RuntimeError as error:
                print("later" in str(error))
            backend.process()

        operation.when_released(settled)
        os.write(ends[1], b"bytes")
        others = [backend.stat(path).start() for _ in range(20)]
        print(await operation)
        for other in others:
            await other
        print(backend.closed)
        """,
        new_loop,
        engine,
    )
    assert sorted(printed.split()) == ["False", "True", "b'bytes'"]


@pytest.mark.parametrize("engine", ["uring", "threads"])
@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_task_may_shut_its_engine_down(new_loop: str, engine: str) -> None:
    printed = run(
        """
        ends = os.pipe()
        reading = asyncio.ensure_future(backend.read(ends[0], 5, -1))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(backend.shutdown)
        try:
            await reading
        except OSError as error:
            print(type(error).__name__)
        print(backend.closed)
        """,
        new_loop,
        engine,
    )
    assert printed == "OSError\nTrue\n"


@pytest.mark.parametrize("new_loop", LOOPS)
def test_callbacks_may_begin_more_closings_while_several_wait(new_loop: str) -> None:
    run(
        """
        ends = os.pipe()
        loop = asyncio.get_running_loop()
        reading = [backend.read(ends[0], 5, -1).start() for _ in range(2)]
        closings = []

        def settled(result):
            # More closings, waiting and not waiting, during the list's iteration.
            closings.append(backend.close(os.dup(ends[1])).start())
            backend.process()

        for operation in reading:
            operation.when_released(settled)
        closings += [backend.close(ends[0]).start() for _ in range(1)]
        for operation in reading:
            operation.close()
        os.write(ends[1], b"bytes" * 2)
        await until(lambda: len(closings) == 3)
        for closing in closings:
            await closing
        """,
        new_loop,
    )


@pytest.mark.parametrize("call", ["stat(path)", "open(path, 0)", "read_file(path)", "call(list)"])
def test_a_finalizer_during_the_making_of_a_result_cannot_remove_it(call: str) -> None:
    run(
        f"""
        closed = []

        class Cycle:
            def __init__(self, operation):
                self.operation, self.itself = operation, self

            def __del__(self):
                try:
                    self.operation.close()
                except ValueError as error:
                    closed.append(str(error))

        for threshold in range(1, 30):
            operation = backend.{call}.start()
            await until(lambda: not operation.in_flight)
            gc.collect()
            Cycle(operation)
            gc.set_threshold(threshold)
            try:
                result = await operation
            except RuntimeError:
                continue  # closed before the result existed
            finally:
                gc.set_threshold(700)
            if isinstance(result, int):
                os.close(result)
        """
    )


def test_an_argument_that_shuts_the_engine_down_starts_no_operation() -> None:
    printed = run(
        """
        class Path:
            def __fspath__(self):
                backend.shutdown()
                return path

        class Number:
            def __index__(self):
                backend.shutdown()
                return 0

        for call in (lambda: backend.open(Path(), 0), lambda: backend.read(fd, 5, Number())):
            try:
                call()
            except RuntimeError as error:
                print("ended" in str(error))
        """
    )
    assert printed == "True\nTrue\n"


def test_no_argument_after_an_invalid_one_is_converted() -> None:
    printed = run(
        """
        class Wrong:
            def __index__(self):
                raise KeyError("the first")

        class Other:
            def __index__(self):
                print("looked at")
                return 0

        class NoPath:
            def __fspath__(self):
                raise KeyError("the first")

        for call in (
            lambda: backend.open(path, Wrong(), Other()),
            lambda: backend.open(NoPath(), Other()),
            lambda: backend.read(fd, Wrong(), Other(), Other()),
            lambda: backend.copy_range(fd, fd, Wrong(), Other()),
            lambda: backend.rename(NoPath(), NoPath()),
        ):
            try:
                call()
            except KeyError as error:
                print(error)
        """
    )
    assert printed == "'the first'\n" * 5


@needs_python_buffers
@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_buffers_release_may_close_its_operation(new_loop: str) -> None:
    printed = run(
        """
        class Buffer:
            operation = None
            releases = 0

            def __buffer__(self, flags):
                return memoryview(bytearray(8))

            def __release_buffer__(self, view):
                self.releases += 1
                if self.operation is not None:
                    self.operation.close()
                    self.operation.when_released(lambda result: None)
                    self.operation.close()

        ends = os.pipe()
        buffers = [Buffer() for _ in range(4)]
        reading = [backend.read_into(ends[0], buffer, -1) for buffer in buffers]
        for buffer, operation in zip(buffers, reading):
            buffer.operation = operation
        reading[0].close()
        task = asyncio.ensure_future(reading[1])
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        reading[2].start()
        os.write(ends[1], b"12345678")
        await reading[2]
        reading[3].start()
        reading[3].close()
        await until(lambda: not backend.in_flight)
        print([buffer.releases for buffer in buffers])
        """,
        new_loop,
    )
    assert printed == "[1, 1, 1, 1]\n"


@needs_python_buffers
def test_writes_of_a_buffer_that_changes_its_size_return_their_true_counts() -> None:
    printed = run(
        """
        class Growing:
            size = 0

            def __buffer__(self, flags):
                self.size += 10
                return memoryview(bytes(self.size))

        async with files.open(path, "wb") as file:
            counts = [await file.write(Growing()) for _ in range(5)]
            at = await file.tell()
        print(sum(counts) == at == os.path.getsize(path))
        """
    )
    assert printed == "True\n"


def test_a_wait_on_trio_does_not_wake_through_asyncio() -> None:
    pytest.importorskip("trio")
    result = run_script(
        """
        import os, trio
        from penstock.files._backend import current_backend

        ends = os.pipe()

        async def main():
            backend = current_backend()
            operation = backend.read(ends[0], 5, -1)
            async with trio.open_nursery() as nursery:
                async def read():
                    print(await operation)
                nursery.start_soon(read)
                while not backend.in_flight:
                    await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
                assert not operation.cancel()
                os.write(ends[1], b"bytes")

        trio.run(main)
        """,
        seconds=SECONDS,
    )
    assert result.stdout == "b'bytes'\n", result.stderr
