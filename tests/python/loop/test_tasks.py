"""create_task, create_future, task factories, and asyncio's own tools on the loop."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

from .conftest import Run


async def answer(value: int = 42) -> int:
    await asyncio.sleep(0)
    return value


def test_futures_and_tasks_belong_to_the_loop(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    future = loop.create_future()
    assert isinstance(future, asyncio.Future)
    assert future.get_loop() is loop

    async def main() -> None:
        task = loop.create_task(answer())
        assert isinstance(task, asyncio.Task)
        assert task.get_loop() is loop
        assert task in asyncio.all_tasks(loop)
        assert asyncio.current_task() is not task
        assert await task == 42

    run(main())


def test_a_task_has_its_name_and_context(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    async def read() -> str:
        await asyncio.sleep(0)
        return variable.get()

    async def main() -> None:
        context = contextvars.copy_context()
        context.run(variable.set, "given")
        task = loop.create_task(read(), name="named", context=context)
        assert task.get_name() == "named"
        assert await task == "given"
        variable.set("own")
        assert await loop.create_task(read()) == "own"

    run(main())


def test_a_task_factory_creates_the_tasks(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    class Special(asyncio.Task[Any]):
        pass

    def factory(
        loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        return Special(coro, loop=loop, **options)

    assert loop.get_task_factory() is None
    loop.set_task_factory(factory)  # type: ignore[arg-type]
    assert loop.get_task_factory() is factory

    async def main() -> None:
        task = asyncio.create_task(answer(), name="named")
        assert type(task) is Special
        assert task.get_name() == "named"
        assert await task == 42

    run(main())
    loop.set_task_factory(None)
    assert loop.get_task_factory() is None


def test_a_factory_with_the_older_signature_works(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    def factory(
        loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], *, context: Any = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=loop, context=context)

    if sys.version_info[:3] >= (3, 13, 3):
        pytest.skip("asyncio passes the name to the factory since Python 3.13.3")
    loop.set_task_factory(factory)  # type: ignore[arg-type]

    async def main() -> None:
        assert await asyncio.create_task(answer(), name="named") == 42

    run(main())


def test_a_factory_that_cannot_be_called_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(TypeError, match="task factory must be a callable or None"):
        loop.set_task_factory("factory")  # type: ignore[arg-type]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_start_immediately(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    seen: list[str] = []

    async def child() -> str:
        seen.append("started")
        await asyncio.sleep(0)
        seen.append("finished")
        return "result"

    async def immediate() -> str:
        return "immediate"

    async def main() -> None:
        task = asyncio.create_task(child())
        assert seen == ["started"]
        done = asyncio.create_task(immediate())
        assert done.done()
        assert await done == "immediate"
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(child()) for _ in range(10)]
        assert [t.result() for t in tasks] == ["result"] * 10
        assert await task == "result"

    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    run(main())


def test_task_groups_timeouts_and_queues_work(run: Run) -> None:
    async def main() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)

        async def produce() -> None:
            for number in range(100):
                await queue.put(number)

        async def consume() -> list[int]:
            return [await queue.get() for _ in range(100)]

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            consumed = group.create_task(consume())
        assert consumed.result() == list(range(100))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(60))
                group.create_task(answer("x"))  # type: ignore[arg-type]
                raise LookupError

    run(main())


def test_each_sleep_of_zero_takes_one_turn(run: Run) -> None:
    async def main() -> None:
        order: list[tuple[str, int]] = []

        async def step(name: str) -> None:
            for number in range(3):
                order.append((name, number))
                await asyncio.sleep(0)

        await asyncio.gather(step("a"), step("b"))
        assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]

    run(main())


def test_a_task_that_ends_with_the_loop_stopped_can_be_finished_later(
    loop: asyncio.AbstractEventLoop,
) -> None:
    task = loop.create_task(answer())
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert loop.run_until_complete(task) == 42


def test_classes_replaced_by_the_program_are_used(
    loop: asyncio.AbstractEventLoop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Future(asyncio.Future[Any]):
        pass

    class Task(asyncio.Task[Any]):
        pass

    async def main() -> None:
        monkeypatch.setattr(asyncio.futures, "Future", Future)
        monkeypatch.setattr(asyncio.tasks, "Task", Task)
        try:
            assert type(loop.create_future()) is Future
            task = loop.create_task(answer(), name="own")
        finally:
            monkeypatch.undo()
        assert type(task) is Task
        assert task.get_name() == "own"
        assert await task == 42
        assert type(loop.create_future()) is asyncio.Future

    run(main())
