"""Exceptions without an awaiter: the loop's handler and its log."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from .conftest import Run


class DeliberateError(Exception):
    pass


def fail() -> None:
    raise DeliberateError("deliberate")


def turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_a_callbacks_exception_is_passed_to_the_handler(
    loop: asyncio.AbstractEventLoop, contexts: list[dict[str, Any]]
) -> None:
    seen: list[int] = []
    handle = loop.call_soon(fail)
    loop.call_soon(seen.append, 1)
    turn(loop)
    (context,) = contexts
    assert type(context["exception"]) is DeliberateError
    assert context["message"].startswith("Exception in callback fail()")
    assert context["handle"] is handle
    assert seen == [1]


def test_a_timers_exception_is_passed_to_the_handler(
    loop: asyncio.AbstractEventLoop, contexts: list[dict[str, Any]]
) -> None:
    handle = loop.call_later(0, fail)
    loop.call_later(0.002, loop.stop)
    loop.run_forever()
    (context,) = contexts
    assert context["handle"] is handle
    assert "fail" in context["message"]


def test_a_threadsafe_callbacks_exception_is_passed_to_the_handler(
    loop: asyncio.AbstractEventLoop, contexts: list[dict[str, Any]]
) -> None:
    loop.call_soon_threadsafe(fail)
    turn(loop)
    assert [type(context["exception"]) for context in contexts] == [DeliberateError]


def test_without_a_handler_the_exception_is_logged_with_its_traceback(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    assert loop.get_exception_handler() is None
    loop.call_soon(fail)
    turn(loop)
    (record,) = caplog.records
    assert record.name == "asyncio"
    assert record.levelno == logging.ERROR
    assert "Exception in callback fail()" in record.getMessage()
    assert "DeliberateError: deliberate" in caplog.text
    caplog.clear()


def test_the_default_handler_logs_every_additional_key(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.call_exception_handler({"message": "what happened", "zebra": 1, "apple": "two"})
    lines = caplog.records[0].getMessage().splitlines()
    assert lines == ["what happened", "apple: 'two'", "zebra: 1"]
    caplog.clear()
    loop.default_exception_handler({})
    assert caplog.records[0].getMessage() == "Unhandled exception in event loop"
    caplog.clear()


def test_the_handler_may_call_the_default_handler(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.set_exception_handler(lambda loop, context: loop.default_exception_handler(context))
    loop.call_soon(fail)
    turn(loop)
    assert "DeliberateError: deliberate" in caplog.text
    caplog.clear()


def test_a_handler_can_be_removed(
    loop: asyncio.AbstractEventLoop, contexts: list[dict[str, Any]], caplog: Any
) -> None:
    assert loop.get_exception_handler() is not None
    loop.set_exception_handler(None)
    assert loop.get_exception_handler() is None
    loop.call_soon(fail)
    turn(loop)
    assert contexts == []
    caplog.clear()


def test_an_uncallable_handler_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(TypeError, match="A callable object or None is expected"):
        loop.set_exception_handler("handler")  # type: ignore[arg-type]


def test_a_handler_that_raises_is_also_logged(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(_: object, __: object) -> None:
        raise LookupError("in the handler")

    loop.set_exception_handler(handler)
    loop.call_soon(fail)
    turn(loop)
    assert "Unhandled error in exception handler" in caplog.text
    assert "in the handler" in caplog.text
    assert "deliberate" in caplog.text
    caplog.clear()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_handler_may_end_the_run(
    loop: asyncio.AbstractEventLoop, error: type[BaseException]
) -> None:
    def handler(_: object, __: object) -> None:
        raise error

    loop.set_exception_handler(handler)
    loop.call_soon(fail)
    with pytest.raises(error):
        loop.run_forever()


def test_the_exception_of_an_unawaited_task_is_reported(
    loop: asyncio.AbstractEventLoop, run: Run, contexts: list[dict[str, Any]]
) -> None:
    async def lost() -> None:
        raise DeliberateError("lost")

    async def main() -> None:
        task = asyncio.create_task(lost())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        gc.collect()

    run(main())
    (context,) = contexts
    assert context["message"] == "Task exception was never retrieved"
    assert type(context["exception"]) is DeliberateError


def test_a_callback_that_raises_a_cancelled_error_is_reported(
    loop: asyncio.AbstractEventLoop, contexts: list[dict[str, Any]]
) -> None:
    def cancelled() -> None:
        raise asyncio.CancelledError

    loop.call_soon(cancelled)
    turn(loop)
    assert [type(context["exception"]) for context in contexts] == [asyncio.CancelledError]
