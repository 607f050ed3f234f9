"""Which engine a loop has, and how it ends with its loop and with operations in flight."""

from __future__ import annotations

import asyncio
import gc
import os
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import penstock
from penstock import files
from penstock.files._backend import current_backend
from tests.python.files.child_script import run_script
from tests.python.files.open_files import open_files


def threads_called(name: str) -> list[str]:
    found = []
    for task in os.listdir("/proc/self/task"):
        # A thread that ends meanwhile has no file, or a file that cannot be read.
        with suppress(FileNotFoundError, ProcessLookupError):
            if Path("/proc/self/task", task, "comm").read_text().strip() == name:
                found.append(task)
    return found


def workers_are_gone() -> bool:
    """Return whether all threads of an engine end within 60 s.

    The kernel wakes a join a moment before it removes the thread from its list.
    """
    deadline = time.monotonic() + 60
    while threads_called("penstock-file") and time.monotonic() < deadline:
        time.sleep(0.001)
    return not threads_called("penstock-file")


SHOW = """
    import penstock
    from penstock.files._backend import current_backend

    async def main():
        backend = current_backend()
        print(backend.name, backend.reason, sep=": ")

    penstock.run(main())
"""


def test_the_environment_chooses_the_engine() -> None:
    assert run_script(SHOW, PENSTOCK_FILES="threads").stdout.startswith("threads: ")
    chosen = run_script(SHOW, PENSTOCK_FILES="auto").stdout
    assert chosen.split(": ")[0] in ("uring", "threads")
    assert len(chosen.splitlines()) == 1
    wrong = run_script(SHOW, PENSTOCK_FILES="fast")
    assert wrong.returncode != 0
    assert "ValueError" in wrong.stderr
    assert "fast" in wrong.stderr


@pytest.mark.anyio
async def test_a_loop_has_one_engine() -> None:
    backend = current_backend()
    assert current_backend() is backend
    assert backend.name in ("uring", "threads")
    assert backend.reason
    assert not backend.closed


def test_there_is_no_engine_without_a_loop() -> None:
    with pytest.raises(RuntimeError):
        current_backend()


RUNS: list[Any] = [
    pytest.param(lambda main: penstock.run(main()), id="penstock"),
    pytest.param(lambda main: asyncio.run(main()), id="asyncio"),
    pytest.param(lambda main: anyio.run(main, backend="trio"), id="trio"),
    pytest.param(
        lambda main: anyio.run(main, backend_options={"use_uvloop": True}), id="asyncio+uvloop"
    ),
]


@pytest.mark.parametrize("run", RUNS)
def test_an_engine_ends_with_its_loop(run: Callable[..., Any], tmp_path: Path) -> None:
    kept: list[Any] = []

    async def main() -> None:
        async with files.open(tmp_path / "file", "w") as file:
            await file.write("text")
        kept.append(current_backend())
        kept.append(await files.open(tmp_path / "file"))

    run(main)
    backend, file = kept
    assert backend.closed
    assert workers_are_gone()
    with pytest.raises(RuntimeError, match="ended"):
        backend.read_file(tmp_path / "file")
    with pytest.raises(RuntimeError, match="ended"):
        run(file.read)
    with pytest.warns(ResourceWarning):
        kept.clear()
        del file
        gc.collect()


@pytest.mark.parametrize("run", RUNS)
def test_a_loop_that_ends_waits_for_writes_and_abandons_reads(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    ends = os.pipe()
    data = os.urandom(8 << 20)
    fd = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)

    async def main() -> None:
        backend = current_backend()
        backend.read(ends[0], 10, -1).start()
        backend.write(fd, data, 0).start()

    run(main)
    assert (tmp_path / "file").read_bytes() == data
    os.write(ends[1], b"not read")
    assert os.read(ends[0], 100) == b"not read"
    for end in (*ends, fd):
        os.close(end)


@pytest.mark.parametrize("run", RUNS)
def test_a_loop_ends_although_a_pipe_has_no_other_end(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    read, written = tmp_path / "read", tmp_path / "written"
    os.mkfifo(read)
    os.mkfifo(written)

    async def main() -> None:
        backend = current_backend()
        backend.open(read, os.O_RDONLY).start()
        backend.read_file(read).start()
        backend.open(written, os.O_WRONLY).start()
        backend.open(written, os.O_WRONLY | os.O_CREAT).start()

    run(main)
    assert workers_are_gone()
    assert not {str(read), str(written)} & set(open_files())


@pytest.mark.parametrize("run", RUNS)
def test_tasks_that_wait_when_the_loop_ends_are_cancelled(run: Callable[..., Any]) -> None:
    ends = os.pipe()
    outcome: list[str] = []

    async def wait() -> None:
        try:
            await current_backend().read(ends[0], 10, -1)
        except BaseException as error:
            outcome.append(type(error).__name__)
            raise

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            while not current_backend().in_flight:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    run(main)
    assert outcome in (["CancelledError"], ["Cancelled"])
    for end in ends:
        os.close(end)


def test_a_loop_closed_without_a_shutdown_frees_its_engine(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    for make in (asyncio.SelectorEventLoop, penstock.new_event_loop):
        loop = make()
        assert loop.run_until_complete(files.read_file(tmp_path / "file")) == b"content"
        ended = weakref.ref(loop)
        loop.close()
        del loop
        gc.collect()
        assert ended() is None


def test_an_operation_that_is_never_awaited_is_reported(tmp_path: Path) -> None:
    async def main() -> None:
        current_backend().read_file(tmp_path / "file")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        penstock.run(main())
        gc.collect()
    assert ["read_file" in str(each.message) for each in caught] == [True]


def test_cycles_through_operations_are_collected(tmp_path: Path) -> None:
    class Owner:
        operation: Any

    async def main() -> weakref.ref[Owner]:
        owner = Owner()
        owner.operation = current_backend().call(lambda: owner).start()
        assert await owner.operation is owner
        settled = Owner()
        owner.operation.when_released(lambda result: settled)
        return weakref.ref(owner)

    ended = penstock.run(main())
    gc.collect()
    assert ended() is None


def test_a_function_called_on_a_worker_raises_in_the_task() -> None:
    import threading

    async def main() -> None:
        backend = current_backend()
        assert await backend.call(threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await backend.call(lambda: 1 // 0)
        with pytest.raises(KeyError):
            await backend.call(lambda: {}["missing"])
        results = await asyncio.gather(*[backend.call(lambda n=n: n * n) for n in range(100)])
        assert results == [n * n for n in range(100)]

    penstock.run(main())


def test_a_forked_child_can_use_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    result = run_script(
        f"""
        import os, penstock
        from penstock import files

        async def main():
            assert await files.read_file({str(tmp_path / "file")!r}) == b"content"
            async with files.open({str(tmp_path / "out")!r}, "w") as file:
                await file.write("parent")
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert (await files.stat({str(tmp_path / "file")!r})).st_size == 7

        penstock.run(main())
        child = os.fork()
        if child == 0:
            penstock.run(main())
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        """
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("engine", ["uring", "threads"])
@pytest.mark.parametrize("new_loop", ["penstock.new_event_loop", "asyncio.new_event_loop"])
def test_a_forked_child_cannot_use_its_parents_loop(
    new_loop: str, engine: str, tmp_path: Path
) -> None:
    result = run_script(
        f"""
        import asyncio, os, penstock
        from penstock import files

        loop = {new_loop}()
        path = {str(tmp_path / "file")!r}
        loop.run_until_complete(files.write_file(path, b"parent"))
        child = os.fork()
        if child == 0:
            try:
                loop.run_until_complete(files.write_file(path, b"child", atomic=True))
            except RuntimeError as error:
                os._exit(7 if "loop of the child's own" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert loop.run_until_complete(files.read_file(path)) == b"parent"
        assert os.listdir({str(tmp_path)!r}) == ["file"]
        loop.close()
        """,
        PENSTOCK_FILES=engine,
    )
    assert result.returncode == 0, result.stderr


def test_an_interpreter_that_exits_with_work_in_flight_exits() -> None:
    result = run_script(
        """
        import os, penstock
        from penstock.files._backend import current_backend

        ends = os.pipe()
        loop = penstock.new_event_loop()

        async def main():
            current_backend().read(ends[0], 5, -1).start()

        loop.run_until_complete(main())
        print("end")
        """
    )
    assert result.stdout == "end\n", result.stderr
