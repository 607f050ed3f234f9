"""Operations on sockets."""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
from pathlib import Path

import pytest

from penstock.uring import CQE_F_MORE, CQE_F_NOTIF, ReceivedMessage, UringCtx, probe
from penstock.uring._operations.sockets import encode_address
from tests.python.uring.conftest import results

Pair = tuple[socket.socket, socket.socket]


def test_data_is_sent_and_received(any_ctx: UringCtx, pair: Pair) -> None:
    one, other = pair
    memory = bytearray(10)
    any_ctx.prep_send(one, b"hello", user_data="send")
    any_ctx.prep_recv(other, memory, user_data="recv")
    assert results(any_ctx.wait_completions(2)) == {"send": 5, "recv": 5}
    assert memory == b"hello" + bytes(5)
    any_ctx.prep_send(other, memoryview(b"and back"), socket.MSG_NOSIGNAL, user_data="send")
    any_ctx.prep_recv(one, 100, user_data="recv")
    assert results(any_ctx.wait_completions(2)) == {"send": 8, "recv": b"and back"}
    any_ctx.prep_shutdown(one, socket.SHUT_WR, user_data="shutdown")
    any_ctx.prep_recv(other, 100, user_data="recv")
    assert results(any_ctx.wait_completions(2)) == {"shutdown": 0, "recv": b""}


def test_several_buffers_are_sent_and_received_at_once(ctx: UringCtx, pair: Pair) -> None:
    one, other = pair
    parts = [bytearray(3), bytearray(9)]
    ctx.prep_sendmsg(one, [b"abc", b"", bytearray(b"defg")], user_data="send")
    ctx.prep_recvmsg(other, parts, user_data="recv")
    assert results(ctx.wait_completions(2)) == {"send": 7, "recv": 7}
    assert parts == [b"abc", b"defg" + bytes(5)]


def test_datagrams_are_sent_to_an_address(ctx: UringCtx) -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as one,
        socket.socket(type=socket.SOCK_DGRAM) as other,
    ):
        other.bind(("127.0.0.1", 0))
        one.bind(("127.0.0.1", 0))
        sender = bytearray(16)
        memory = bytearray(10)
        target = encode_address(other.getsockname())
        ctx.prep_sendmsg(one, [b"ping"], address=target, user_data="send")
        ctx.prep_recvmsg(other, [memory], address=sender, user_data="recv")
        assert results(ctx.wait_completions(2)) == {"send": 4, "recv": 4}
        assert memory.startswith(b"ping")
        assert sender == encode_address(one.getsockname())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_operations_alone_make_a_server(ctx: UringCtx, host: str) -> None:
    if not probe().supports("listen"):
        pytest.skip("the kernel has no bind and listen operations")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ctx.prep_socket(family, socket.SOCK_STREAM, user_data="server")
    fd = results(ctx.wait_completions())["server"]
    if fd == -errno.EAFNOSUPPORT:
        pytest.skip("no IPv6 here")
    server = socket.socket(fileno=fd)
    with server:
        assert not os.get_inheritable(fd)
        ctx.prep_bind(server, (host, 0), link=True, user_data="bind")
        ctx.prep_listen(server, user_data="listen")
        found = results(ctx.wait_completions(2))
        if found["bind"] == -errno.EADDRNOTAVAIL:
            pytest.skip("no IPv6 here")
        assert found == {"bind": 0, "listen": 0}
        with socket.socket(family) as client:
            ctx.prep_accept(server, user_data="accept")
            ctx.prep_connect(client, server.getsockname(), user_data="connect")
            found = results(ctx.wait_completions(2))
            assert found["connect"] == 0
            with socket.socket(fileno=found["accept"]) as accepted:
                assert not accepted.get_inheritable()
                accepted.sendall(b"through")
                assert client.recv(9) == b"through"


def test_unix_sockets_are_connected_by_path(ctx: UringCtx, tmp_path: Path) -> None:
    for name in (str(tmp_path / "s"), "\0penstock-uring-" + str(os.getpid())):
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(name)
            server.listen()
            ctx.prep_connect(client, name)
            assert ctx.wait_completions()[0][1] == 0


def test_a_refused_connection_is_an_errno(ctx: UringCtx) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with socket.socket() as client:
            ctx.prep_connect(client, unused.getsockname())
            assert ctx.wait_completions()[0][1] == -errno.ECONNREFUSED


def test_addresses_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(ValueError, match="resolve the name first"):
        encode_address(("localhost", 80))
    with pytest.raises(ValueError, match="port is 70000"):
        encode_address(("127.0.0.1", 70000))
    with pytest.raises(ValueError, match="too long"):
        encode_address("x" * 108)


def test_accepting_continues_while_the_more_flag_is_set(ctx: UringCtx) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ctx.prep_accept_multishot(server, user_data="accept")
        clients = [socket.create_connection(server.getsockname()) for _ in range(3)]
        completions = []
        while len(completions) < 3:
            completions += ctx.wait_completions()
        assert [(tag, flags & CQE_F_MORE) for tag, _, flags in completions] == [
            ("accept", CQE_F_MORE)
        ] * 3
        accepted = [socket.socket(fileno=fd) for _, fd, _ in completions]
        assert {each.getpeername() for each in accepted} == {each.getsockname() for each in clients}
        assert ctx.in_flight == 1
        ctx.prep_cancel("accept", user_data="cancel")
        found = ctx.wait_completions(2)
        assert ("accept", -errno.ECANCELED, 0) in found
        assert ctx.in_flight == 0
        for each in (*clients, *accepted):
            each.close()


def test_connections_are_accepted_into_registered_places(ctx: UringCtx) -> None:
    ctx.register_files_sparse(2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ctx.prep_accept_multishot(server, direct=True, user_data="accept")
        ctx.submit()
        with socket.create_connection(server.getsockname()) as client:
            [(_, place, _)] = ctx.wait_completions()
            ctx.prep_send(place, b"hi", fixed_file=True, user_data="send")
            ctx.wait_completions()
            assert client.recv(2) == b"hi"


def test_a_poll_returns_its_events(any_ctx: UringCtx, pipe: tuple[int, int]) -> None:
    any_ctx.prep_poll_add(pipe[0], user_data="readable")
    any_ctx.prep_poll_add(pipe[1], select.POLLOUT, user_data="writable")
    assert results(any_ctx.wait_completions()) == {"writable": select.POLLOUT}
    os.write(pipe[1], b"!")
    assert results(any_ctx.wait_completions()) == {"readable": select.POLLIN}


def test_a_multishot_poll_completes_repeatedly(ctx: UringCtx, pipe: tuple[int, int]) -> None:
    ctx.prep_poll_add(pipe[0], multishot=True, user_data="poll")
    ctx.submit()
    for _ in range(3):
        os.write(pipe[1], b"!")
        [(_, events, flags)] = ctx.wait_completions()
        assert events & select.POLLIN
        assert flags & CQE_F_MORE
        os.read(pipe[0], 9)
    ctx.prep_poll_remove("poll", user_data="remove")
    found = {tag: (result, flags) for tag, result, flags in ctx.wait_completions(2)}
    assert found == {"remove": (0, 0), "poll": (-errno.ECANCELED, 0)}


def test_a_polls_events_can_be_changed(ctx: UringCtx, pair: Pair) -> None:
    one, _ = pair
    ctx.prep_poll_add(one, select.POLLIN, user_data="poll")
    ctx.submit()
    ctx.prep_poll_update("poll", select.POLLOUT, user_data="update")
    found = results(ctx.wait_completions(2))
    assert found["update"] == 0
    assert found["poll"] & select.POLLOUT


def test_zero_copy_data_is_held_until_the_notification(ctx: UringCtx, pair: Pair) -> None:
    if not probe().supports("send_zc"):
        pytest.skip("the kernel has no zero-copy send")
    one, other = pair
    memory = bytearray(b"z" * 20_000)
    ctx.prep_send(one, memory, zero_copy=True, user_data="send")
    taken = ctx.wait_completions()
    while ctx.in_flight:
        # The kernel may hold the pages until the peer has read them.
        with pytest.raises(BufferError):
            memory.clear()
        other.recv(30_000)
        taken += ctx.wait_completions(1, 1)
    taken += ctx.completions()
    (tag, sent, flags), *notifications = taken
    assert (tag, sent) == ("send", 20_000)
    assert len(notifications) == bool(flags & CQE_F_MORE)
    assert all(flags & CQE_F_NOTIF for _, _, flags in notifications)
    memory.clear()


def test_a_failed_zero_copy_send_releases_its_data(ctx: UringCtx) -> None:
    if not probe().supports("send_zc"):
        pytest.skip("the kernel has no zero-copy send")
    memory = bytearray(100)
    ctx.prep_send(9999, memory, zero_copy=True)
    while ctx.in_flight:
        for _, result, flags in ctx.wait_completions():
            if not flags & CQE_F_NOTIF:
                assert result == -errno.EBADF
    memory.clear()


def test_a_message_is_sent_without_a_copy(
    any_ctx: UringCtx, pair: tuple[socket.socket, socket.socket]
) -> None:
    parts = [bytearray(b"several "), bytearray(b"parts")]
    any_ctx.prep_sendmsg_zc(pair[0], parts, user_data="sent")
    any_ctx.submit_and_wait(2, 20)
    (tag, result, flags), (again, _, last) = any_ctx.completions()
    assert (tag, again, result) == ("sent", "sent", 13)
    assert flags & CQE_F_MORE
    assert last & CQE_F_NOTIF
    for part in parts:
        part.clear()  # released by the kernel
    assert pair[1].recv(100) == b"several parts"


SO_TIMESTAMP = 29  # asm-generic/socket.h


def test_a_multishot_recvmsg_receives_repeatedly(any_ctx: UringCtx) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        sender.bind(("127.0.0.1", 0))
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMP, 1)
        buffers = any_ctx.register_buffer_ring(4, 256)
        any_ctx.prep_recvmsg_multishot(
            receiver, buffers, address_size=28, control_size=64, user_data="messages"
        )
        any_ctx.submit()
        for number in range(1, 10):
            data = bytes([number]) * (number * 20)
            sender.sendto(data, receiver.getsockname())
            [(tag, size, flags)] = any_ctx.wait_completions(1, 20)
            assert tag == "messages"
            assert flags & CQE_F_MORE
            found = ReceivedMessage.parse(buffers.take(size, flags), 28, 64)
            room = 256 - 16 - 28 - 64
            assert found.data == data[:room]
            assert bool(found.flags & socket.MSG_TRUNC) == (len(data) > room)
            assert found.address == encode_address(sender.getsockname())
            assert int.from_bytes(found.control[:8], sys.byteorder) == len(found.control)
        with pytest.raises(ValueError, match="a message of 5 bytes is shorter"):
            ReceivedMessage.parse(b"short")
        with pytest.raises(TypeError, match="needs a BufferRing"):
            any_ctx.prep_recvmsg_multishot(receiver, bytearray(5))  # type: ignore[arg-type]
