"""Exceptions leave a plain task group unchanged, and none is lost."""

from __future__ import annotations

import anyio
import pytest

from penstock._plain_task_group import plain_task_group

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def fail(error: Exception) -> None:
    raise error


async def test_exception_of_the_block_propagates_unchanged_after_its_tasks() -> None:
    ended = []

    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    error = ValueError("the block's")
    with pytest.raises(ValueError) as caught:
        async with plain_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            raise error
    assert caught.value is error
    assert ended == [True]


async def test_exception_of_one_task_propagates_unchanged() -> None:
    error = KeyError("the task's")
    with pytest.raises(KeyError) as caught:
        async with plain_task_group() as tasks:
            tasks.start_soon(fail, error)
            await anyio.sleep_forever()
    assert caught.value is error


async def test_several_exceptions_propagate_in_a_group() -> None:
    errors = ValueError("the block's"), KeyError("the task's")
    with pytest.raises(ExceptionGroup) as caught:
        async with plain_task_group() as tasks:
            tasks.start_soon(fail, errors[1])
            raise errors[0]
    assert set(caught.value.exceptions) == set(errors)


async def test_outer_cancellation_ends_block_and_tasks() -> None:
    with anyio.CancelScope() as scope:
        async with plain_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
