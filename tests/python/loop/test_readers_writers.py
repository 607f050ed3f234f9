"""add_reader, add_writer and their removal."""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Run
from .peers import until

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    with left, right:
        yield left, right


def turn(loop: asyncio.AbstractEventLoop, turns: int = 3) -> None:
    for _ in range(turns):
        loop.call_soon(loop.stop)
        loop.run_forever()


def test_a_reader_runs_while_data_are_available(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    seen: list[bytes] = []
    loop.add_reader(left, lambda: seen.append(left.recv(1)))
    turn(loop)
    assert seen == []
    right.send(b"abc")
    turn(loop, 8)
    assert seen == [b"a", b"b", b"c"]
    assert loop.remove_reader(left) is True
    right.send(b"d")
    turn(loop)
    assert seen == [b"a", b"b", b"c"]
    assert loop.remove_reader(left) is False


def test_an_unread_descriptor_calls_its_reader_every_turn(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    calls: list[int] = []
    right.send(b"x")
    loop.add_reader(left, calls.append, 1)
    turn(loop, 6)
    assert len(calls) >= 4
    loop.remove_reader(left)


def test_a_writer_runs_while_the_socket_accepts_data(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    calls: list[int] = []
    loop.add_writer(left, calls.append, 1)
    turn(loop)
    assert calls
    with pytest.raises(BlockingIOError):
        while True:
            left.send(bytes(65536))
    turn(loop)
    count = len(calls)
    turn(loop)
    assert len(calls) == count
    while count == len(calls):
        right.recv(1 << 20)
        turn(loop, 1)
    assert loop.remove_writer(left) is True
    assert loop.remove_writer(left) is False


def test_numbers_and_objects_identify_the_same_descriptor(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    seen: list[str] = []
    right.send(b"x")
    loop.add_reader(left, seen.append, "object")
    loop.add_reader(left.fileno(), seen.append, "number")
    turn(loop)
    assert set(seen) == {"number"}
    assert loop.remove_reader(left) is True


def test_a_new_reader_replaces_the_old_one(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    left, right = pair
    seen: list[str] = []
    loop.add_reader(left, seen.append, "old")
    right.send(b"x")
    turn(loop)
    assert set(seen) == {"old"}
    seen.clear()
    loop.add_reader(left, seen.append, "new")
    turn(loop)
    assert set(seen) == {"new"}
    loop.remove_reader(left)


def test_both_directions_of_a_descriptor_are_independent(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    seen: list[str] = []
    loop.add_reader(left, seen.append, "read")
    loop.add_writer(left, seen.append, "write")
    turn(loop)
    assert set(seen) == {"write"}
    right.send(b"x")
    turn(loop)
    assert set(seen) == {"read", "write"}
    loop.remove_writer(left)
    turn(loop)
    seen.clear()
    turn(loop)
    assert set(seen) == {"read"}
    loop.add_writer(left, seen.append, "write again")
    loop.remove_reader(left)
    turn(loop)
    seen.clear()
    turn(loop)
    assert set(seen) == {"write again"}
    loop.remove_writer(left)


def test_a_reader_may_remove_itself(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    left, right = pair
    seen: list[bool] = []
    right.send(b"x")
    loop.add_reader(left, lambda: seen.append(loop.remove_reader(left)))
    turn(loop, 5)
    assert seen == [True]


def test_a_reader_may_replace_itself(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    left, right = pair
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        loop.add_reader(left, second)

    def second() -> None:
        seen.append("second")
        loop.remove_reader(left)

    right.send(b"x")
    loop.add_reader(left, first)
    turn(loop, 6)
    assert seen == ["first", "second"]


def test_a_reader_removed_by_another_callback_of_the_turn_does_not_run(
    loop: asyncio.AbstractEventLoop,
) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    readers = [left for left, _ in pairs]
    seen: list[socket.socket] = []

    def called(sock: socket.socket) -> None:
        seen.append(sock)
        for reader in readers:
            loop.remove_reader(reader)

    for left, right in pairs:
        right.send(b"x")
        loop.add_reader(left, called, left)
    turn(loop, 5)
    assert len(seen) == 1
    for left, right in pairs:
        left.close()
        right.close()


def test_a_reader_may_remove_the_writer_of_the_same_turn(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    seen: list[str] = []

    def called(name: str) -> None:
        seen.append(name)
        loop.remove_reader(left)
        loop.remove_writer(left)

    right.send(b"x")
    loop.add_reader(left, called, "read")
    loop.add_writer(left, called, "write")
    turn(loop, 5)
    assert len(seen) == 1


def test_hang_up_wakes_reader_and_writer(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    left, right = pair
    seen: list[str] = []
    loop.add_reader(left, seen.append, "read")
    right.close()
    turn(loop)
    assert "read" in seen
    loop.remove_reader(left)
    seen.clear()
    loop.add_writer(left, seen.append, "write")
    turn(loop)
    assert "write" in seen
    loop.remove_writer(left)


def test_a_descriptor_number_can_be_reused_after_removal(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        for _ in range(20):
            left, right = socket.socketpair()
            arrived = asyncio.Event()
            loop.add_reader(left.fileno(), arrived.set)
            right.send(b"x")
            await arrived.wait()
            loop.remove_reader(left.fileno())
            left.close()
            right.close()

    run(main())


def test_a_number_reused_after_a_close_without_removal_can_be_watched(
    loop: asyncio.AbstractEventLoop,
) -> None:
    left, right = socket.socketpair()
    number = left.fileno()
    loop.add_reader(number, lambda: None)
    left.close()
    right.close()
    loop.remove_reader(number)

    read, write = os.pipe()
    if read != number:
        os.dup2(read, number)
        os.close(read)
    seen: list[bytes] = []
    loop.add_reader(number, lambda: seen.append(os.read(number, 10)))
    os.write(write, b"again")
    turn(loop)
    assert seen == [b"again"]
    loop.remove_reader(number)
    os.close(number)
    os.close(write)


def test_a_closed_or_invalid_descriptor_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    left, right = socket.socketpair()
    number = left.fileno()
    left.close()
    right.close()
    with pytest.raises(OSError, match=r"\[Errno 9\]"):
        loop.add_reader(number, print)
    with pytest.raises(OSError, match=r"\[Errno 9\]"):
        loop.add_writer(number, print)
    for bad in (-1, left, "socket", None, 1.5):
        with pytest.raises((ValueError, TypeError)):
            loop.add_reader(bad, print)  # type: ignore[arg-type]
    assert loop.remove_reader(number) is False
    turn(loop)


def test_a_regular_file_is_refused(loop: asyncio.AbstractEventLoop, tmp_path: Any) -> None:
    with (
        open(tmp_path / "file", "wb") as file,
        pytest.raises(PermissionError),
    ):
        loop.add_reader(file.fileno(), print)


def test_callbacks_receive_their_arguments_and_context(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    left, right = pair
    seen: list[tuple[str, int, int]] = []

    def watch() -> None:
        variable.set("at add_reader")
        loop.add_reader(left, lambda a, b: seen.append((variable.get(), a, b)), 1, 2)

    contextvars.copy_context().run(watch)
    right.send(b"x")
    turn(loop)
    assert set(seen) == {("at add_reader", 1, 2)}
    loop.remove_reader(left)


def test_a_reader_that_raises_is_reported_and_stays_registered(
    loop: asyncio.AbstractEventLoop, pair: Pair, contexts: list[dict[str, Any]]
) -> None:
    left, right = pair

    def fail() -> None:
        raise LookupError("meant")

    right.send(b"x")
    loop.add_reader(left, fail)
    turn(loop, 5)
    assert len(contexts) >= 2
    assert {type(context["exception"]) for context in contexts} == {LookupError}
    assert loop.remove_reader(left) is True


def test_the_descriptor_of_a_transport_is_protected(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        left.setblocking(False)
        with right:
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=left)
            for call in (loop.add_reader, loop.add_writer):
                with pytest.raises(RuntimeError, match="is used by transport"):
                    call(left.fileno(), print)
            for remove in (loop.remove_reader, loop.remove_writer):
                with pytest.raises(RuntimeError, match="is used by transport"):
                    remove(left.fileno())
            transport.close()
            await asyncio.sleep(0)

    run(main())


def test_many_descriptors_are_watched(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    count = 300

    async def main() -> None:
        pairs = [socket.socketpair() for _ in range(count)]
        seen: set[int] = set()
        for index, (left, _) in enumerate(pairs):
            loop.add_reader(left, seen.add, index)
        for _, right in pairs:
            right.send(b"x")
        await until(lambda: len(seen) == count)
        for left, right in pairs:
            assert loop.remove_reader(left)
            left.close()
            right.close()

    run(main())


def test_more_ready_descriptors_than_one_poll_reports_are_served_in_turn(
    loop: asyncio.AbstractEventLoop,
) -> None:
    ready = [os.eventfd(1) for _ in range(600)]
    calls = dict.fromkeys(ready, 0)

    def called(number: int) -> None:
        calls[number] += 1  # it stays ready

    for number in ready:
        loop.add_reader(number, called, number)
    for _ in range(40):
        turn(loop, 1)
        assert max(calls.values()) - min(calls.values()) <= 1
    assert min(calls.values()) > 10
    for number in ready:
        loop.remove_reader(number)
        os.close(number)


@pytest.mark.parametrize("kind", ["eventfd", "pipe", "pty"])
def test_other_descriptor_types_are_watched(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    if kind == "eventfd":
        watched = os.eventfd(0)
        written = os.dup(watched)
        os.eventfd_write(written, 1)
    elif kind == "pipe":
        watched, written = os.pipe()
        os.write(written, b"x")
    else:
        watched, written = os.openpty()
        os.write(written, b"x\n")
    loop.add_reader(watched, loop.stop)
    loop.run_forever()
    loop.remove_reader(watched)
    os.close(watched)
    os.close(written)


def test_a_number_reused_within_the_turn_receives_no_old_event(
    loop: asyncio.AbstractEventLoop,
) -> None:
    pairs = [socket.socketpair() for _ in range(10)]
    fresh: list[tuple[socket.socket, socket.socket]] = []
    stale: list[int] = []

    def first() -> None:
        for left, right in pairs:
            loop.remove_reader(left)
            left.close()
            right.close()
        for _ in range(10):
            left, right = socket.socketpair()
            fresh.append((left, right))
            loop.add_reader(left, stale.append, left.fileno())
            loop.add_reader(right, stale.append, right.fileno())

    for left, right in pairs:
        right.send(b"x")
        loop.add_reader(left, first)
    numbers = {left.fileno() for left, _ in pairs}
    turn(loop)
    assert numbers & {sock.fileno() for pair in fresh for sock in pair}
    assert stale == []
    for pair in fresh:
        for sock in pair:
            loop.remove_reader(sock)
            sock.close()


def test_a_reader_removed_and_added_again_within_its_turn_sees_unread_data(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    seen: list[str] = []

    def first() -> None:
        loop.remove_reader(left)
        loop.add_writer(left, lambda: None)
        loop.remove_writer(left)
        loop.add_reader(left, seen.append, "second")

    right.send(b"x")
    loop.add_reader(left, first)
    turn(loop, 4)
    assert set(seen) == {"second"}
    loop.remove_reader(left)


@pytest.mark.usefixtures("only_penstock")  # asyncio's own loop does not ask the kernel again
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("form", ["object", "number"])
def test_a_reader_set_again_under_a_reused_number_watches_the_new_file(
    loop: asyncio.AbstractEventLoop, form: str, copied: bool
) -> None:
    first, far = socket.socketpair()
    number = first.fileno()
    loop.add_reader(first if form == "object" else number, print, "the first file's")
    copy = first.dup() if copied else None
    first.close()  # without the removal of its reader
    second, other = socket.socketpair()
    if second.fileno() != number:
        os.dup2(second.fileno(), number)
    seen: list[bytes] = []

    def read() -> None:
        seen.append(second.recv(10))

    loop.add_reader(second if second.fileno() == number else number, read)
    if copied:
        far.send(b"for the copy")
    other.send(b"new")
    turn(loop, 5)
    assert seen == [b"new"]
    assert loop.remove_reader(number) is True
    if second.fileno() != number:
        os.close(number)
    for sock in (far, second, other, *([copy] if copy else [])):
        sock.close()


@pytest.mark.usefixtures("only_penstock")  # as above
def test_a_receive_under_a_reused_number_waits_for_the_new_socket(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    first, far = socket.socketpair()
    number = first.fileno()
    loop.add_reader(first, print)
    first.close()
    second, other = socket.socketpair()
    second.setblocking(False)
    assert number in (second.fileno(), other.fileno())
    if other.fileno() == number:
        second, other = other, second
        second.setblocking(False)

    async def main() -> None:
        task = asyncio.ensure_future(loop.sock_recv(second, 10))
        await asyncio.sleep(0)
        other.send(b"new")
        assert await task == b"new"

    run(main())
    assert loop.remove_reader(number) is True
    for sock in (far, second, other):
        sock.close()


def test_setting_a_reader_again_whose_file_is_closed_is_no_error(
    loop: asyncio.AbstractEventLoop,
) -> None:
    left, right = socket.socketpair()
    number = left.fileno()
    loop.add_reader(number, print)
    left.close()
    loop.add_reader(number, print)
    assert loop.remove_reader(number) is True
    right.close()


@pytest.mark.parametrize("how", ["replaced", "removed and added"])
def test_an_event_does_not_concern_a_reader_that_another_reader_has_set(
    loop: asyncio.AbstractEventLoop, how: str
) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    seen: list[str] = []

    def first(index: int) -> None:
        # Reads what the other's event is about, and sets another reader there.
        seen.append("first")
        for left, _ in pairs:
            left.recv(10)
        other = pairs[1 - index][0]
        if how == "removed and added":
            loop.remove_reader(other)
        loop.add_reader(other, seen.append, "second")
        loop.remove_reader(pairs[index][0])

    for index, (left, _) in enumerate(pairs):
        loop.add_reader(left, first, index)
    for _, right in pairs:
        right.send(b"x")
    turn(loop, 5)
    assert seen == ["first"]
    for left, right in pairs:
        loop.remove_reader(left)
        left.close()
        right.close()
