"""call_soon: order, handles, contexts."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import weakref
from typing import Any

import pytest

from .conftest import Run


def test_callbacks_run_in_the_order_of_their_scheduling(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    for number in range(1000):
        loop.call_soon(seen.append, number)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == list(range(1000))


def test_a_callback_scheduled_by_a_callback_runs_in_the_next_turn(
    loop: asyncio.AbstractEventLoop,
) -> None:
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        loop.call_soon(seen.append, "nested")

    loop.call_soon(first)
    loop.call_soon(seen.append, "second")
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == ["first", "second"]
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == ["first", "second", "nested"]


def test_a_cancelled_callback_does_not_run(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    handle = loop.call_soon(seen.append, 1)
    assert not handle.cancelled()
    handle.cancel()
    handle.cancel()
    assert handle.cancelled()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == []


def test_a_callback_can_cancel_a_later_one_of_the_same_turn(
    loop: asyncio.AbstractEventLoop,
) -> None:
    seen: list[int] = []
    loop.call_soon(lambda: handle.cancel())
    handle = loop.call_soon(seen.append, 1)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == []


def test_a_callback_may_cancel_itself_while_it_runs(loop: asyncio.AbstractEventLoop) -> None:
    sizes: list[int] = []

    def key(number: int) -> int:
        # Only the handle holds the list and the partial that sorts it.
        handle.cancel()
        sizes.append(number)
        return -number

    handle = loop.call_soon(functools.partial(list(range(1000)).sort, key=key))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert sizes == list(range(1000))
    assert handle.cancelled()


def test_cancelling_a_callback_that_has_run_is_harmless(loop: asyncio.AbstractEventLoop) -> None:
    handle = loop.call_soon(loop.stop)
    loop.run_forever()
    handle.cancel()


def test_cancelling_releases_the_callback_and_its_arguments(
    loop: asyncio.AbstractEventLoop,
) -> None:
    class Payload:
        pass

    payload = Payload()
    handle = loop.call_soon(lambda _: None, payload)
    reference = weakref.ref(payload)
    del payload
    handle.cancel()
    gc.collect()
    assert reference() is None


def test_a_callback_that_has_run_keeps_no_argument_alive(loop: asyncio.AbstractEventLoop) -> None:
    class Payload:
        pass

    payload = Payload()
    reference = weakref.ref(payload)
    loop.call_soon(lambda _: None, payload)
    loop.call_soon(loop.stop)
    del payload
    loop.run_forever()
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 20])
def test_a_callback_receives_any_number_of_arguments(
    loop: asyncio.AbstractEventLoop, count: int
) -> None:
    seen: list[tuple[int, ...]] = []
    loop.call_soon(lambda *args: seen.append(args), *range(count))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == [tuple(range(count))]


def test_call_soon_accepts_no_keyword_except_context(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(TypeError):
        loop.call_soon(print, end="")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        loop.call_soon()  # type: ignore[call-arg]


def test_a_handle_can_be_weakly_referenced(loop: asyncio.AbstractEventLoop) -> None:
    handle = loop.call_soon(lambda: None)
    reference = weakref.ref(handle)
    assert reference() is handle
    handle.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    del handle
    gc.collect()
    assert reference() is None


def test_a_handle_is_an_asyncio_handle(loop: asyncio.AbstractEventLoop) -> None:
    soon, later = loop.call_soon(print), loop.call_later(60, print)
    posted = loop.call_soon_threadsafe(print)
    for handle in (soon, posted):
        assert isinstance(handle, asyncio.Handle)
        assert not isinstance(handle, asyncio.TimerHandle)
    assert isinstance(later, asyncio.TimerHandle)
    assert isinstance(later, asyncio.Handle)
    for each in (soon, later, posted):
        each.cancel()


def test_the_repr_of_a_handle_names_its_callback(loop: asyncio.AbstractEventLoop) -> None:
    def distinctly_named() -> None: ...

    handle = loop.call_soon(distinctly_named)
    assert "distinctly_named" in repr(handle)
    assert "Handle" in repr(handle)
    handle.cancel()
    assert "cancelled" in repr(handle)


def test_a_handle_returns_its_context(loop: asyncio.AbstractEventLoop) -> None:
    if not hasattr(asyncio.Handle, "get_context"):
        pytest.skip("Handle.get_context came with Python 3.12")
    context = contextvars.copy_context()
    handle = loop.call_soon(print, context=context)
    assert handle.get_context() is context
    handle.cancel()


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def test_a_callback_runs_in_the_context_it_was_created_in(
    loop: asyncio.AbstractEventLoop,
) -> None:
    seen: list[str] = []

    def schedule(value: str) -> None:
        variable.set(value)
        loop.call_soon(lambda: seen.append(variable.get()))

    contextvars.copy_context().run(schedule, "one")
    contextvars.copy_context().run(schedule, "two")
    loop.call_soon(lambda: seen.append(variable.get()))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == ["one", "two", "unset"]


def test_a_callback_does_not_see_a_later_change_of_its_context(
    loop: asyncio.AbstractEventLoop,
) -> None:
    seen: list[str] = []

    def schedule() -> None:
        variable.set("before")
        loop.call_soon(lambda: seen.append(variable.get()))
        variable.set("after")

    contextvars.copy_context().run(schedule)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == ["before"]


def test_a_callback_does_not_change_its_makers_context(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []
    loop.call_soon(variable.set, "leaked")
    loop.call_soon(lambda: seen.append(variable.get()))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == ["unset"]
    assert variable.get() == "unset"


def test_callbacks_share_a_context_passed_to_them(loop: asyncio.AbstractEventLoop) -> None:
    context = contextvars.copy_context()
    seen: list[str] = []
    loop.call_soon(variable.set, "shared", context=context)
    loop.call_soon(lambda: seen.append(variable.get()), context=context)
    loop.call_later(0, lambda: seen.append(variable.get()), context=context)
    loop.call_soon_threadsafe(lambda: seen.append(variable.get()), context=context)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert seen == ["shared"] * 3
    assert context[variable] == "shared"


def test_the_context_is_exited_after_a_callback_that_raises(
    loop: asyncio.AbstractEventLoop, contexts: list[dict[str, Any]]
) -> None:
    context = contextvars.copy_context()

    def fail() -> None:
        variable.set("inside")
        raise LookupError("meant")

    loop.call_soon(fail, context=context)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert [type(c["exception"]) for c in contexts] == [LookupError]
    assert context.run(variable.get) == "inside"
    assert variable.get() == "unset"


def test_the_running_loop_is_set_only_inside_callbacks(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    seen: list[asyncio.AbstractEventLoop] = []
    loop.call_soon(lambda: seen.append(asyncio.get_running_loop()))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == [loop]
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
