"""Readiness through a ring: epoll, a registered eventfd; and commands of drivers."""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.uring import EpollBuffer, UringCtx, UringError
from penstock.uring._operations.control import EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD

SOCKET_URING_OP_SIOCINQ = 0


@pytest.fixture
def epoll() -> Iterator[select.epoll]:
    with select.epoll() as made:
        yield made


def test_an_epoll_set_is_changed_and_polled(
    any_ctx: UringCtx, epoll: select.epoll, pipe: tuple[int, int]
) -> None:
    reader, writer = pipe
    run = any_ctx.run
    run(any_ctx.prep_epoll_ctl, epoll, EPOLL_CTL_ADD, reader, select.EPOLLIN)
    into = EpollBuffer(4)
    any_ctx.prep_epoll_wait(epoll, into, user_data="waits")
    any_ctx.submit()
    os.write(writer, b"x")
    [(tag, count, _)] = any_ctx.wait_completions(1, 20)
    assert (tag, into.result(count)) == ("waits", [(reader, select.EPOLLIN)])
    run(any_ctx.prep_epoll_ctl, epoll, EPOLL_CTL_MOD, reader, select.EPOLLIN, (1 << 63) + 5)
    assert into.result(run(any_ctx.prep_epoll_wait, epoll, into)) == [
        ((1 << 63) + 5, select.EPOLLIN)
    ]
    run(any_ctx.prep_epoll_ctl, epoll, EPOLL_CTL_DEL, reader)
    assert epoll.poll(0) == []
    with pytest.raises(FileNotFoundError):
        run(any_ctx.prep_epoll_ctl, epoll, EPOLL_CTL_DEL, reader)
    with pytest.raises(ValueError, match="max_events is 0"):
        EpollBuffer(0)


@pytest.mark.parametrize("kind", [{"defer_taskrun": False}, {"sqpoll": True}], ids=str)
def test_an_eventfd_counts_completions(kind: dict[str, Any], pipe: tuple[int, int]) -> None:
    counter = os.eventfd(0, os.EFD_NONBLOCK)
    with UringCtx(8, **kind) as ctx:
        ctx.register_eventfd(counter)
        with pytest.raises(UringError, match="registered already"):
            ctx.register_eventfd(counter)
        ctx.prep_read(pipe[0], 1, -1, "read")
        ctx.submit()
        os.write(pipe[1], b"x")
        assert select.select([counter], [], [], 20)[0] == [counter]
        assert os.eventfd_read(counter) == 1
        assert ctx.completions() == [("read", b"x", 0)]
        ctx.unregister_eventfd()
        with pytest.raises(UringError, match="no eventfd is registered"):
            ctx.unregister_eventfd()
        with pytest.raises(UringError):
            ctx.register_eventfd(pipe[0])
    os.close(counter)


def test_a_socket_accepts_commands(
    any_ctx: UringCtx, pair: tuple[socket.socket, socket.socket]
) -> None:
    client, server = pair
    assert any_ctx.run(any_ctx.prep_uring_cmd, client, SOCKET_URING_OP_SIOCINQ) == 0
    server.sendall(b"twelve bytes")
    select.select([client], [], [], 20)
    assert any_ctx.run(any_ctx.prep_uring_cmd, client, SOCKET_URING_OP_SIOCINQ) == 12


def test_a_command_is_refused_where_it_does_not_fit(ctx: UringCtx, letters: int) -> None:
    with pytest.raises(UringError) as caught:
        ctx.run(ctx.prep_uring_cmd, letters, 0)
    assert caught.value.errno == errno.EOPNOTSUPP
    with pytest.raises(ValueError, match="17 bytes"):
        ctx.prep_uring_cmd(letters, 0, bytes(17))


def test_an_error_names_an_operation_that_the_kernel_lacks(
    ctx: UringCtx, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.uring import Capabilities, _capabilities

    old = Capabilities(True, "an old kernel", frozenset({"read"}))
    monkeypatch.setattr(_capabilities, "_probe_once", lambda: old)
    with pytest.raises(UringError, match=r"has no futex_wait; Linux 6\.7 is the first") as caught:
        ctx.prep_futex_wait(bytearray(4), 0)
    assert caught.value.errno == errno.EOPNOTSUPP
    assert ctx.prepared == 0
