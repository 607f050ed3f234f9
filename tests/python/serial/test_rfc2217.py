"""RFC 2217: Penstock's client and server with each other."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import termios
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.serial import (
    ByteSize,
    Capability,
    FlowControl,
    Parity,
    PortBusyError,
    PortNotFoundError,
    SerialConfig,
    SerialDisconnectedError,
    SerialPort,
    SerialTimeoutError,
    StopBits,
    UnsupportedConfigurationError,
    UnsupportedFeatureError,
    open_serial_port,
)
from penstock.serial.exceptions import disconnected_error
from penstock.serial.rfc2217 import Rfc2217Server, remote_client, serve_serial_port
from penstock.serial.rfc2217.telnet import LONGEST_SUBNEGOTIATION, Option, subnegotiation
from penstock.serial.testing import PtyBench, serial_port_pair
from tests.python.serial.line_waiting import event_during
from tests.python.serial.pty_peer import until
from tests.python.serial.rfc2217_serving import EVERY_BYTE, served
from tests.python.serial.test_mock_ports import receive_exactly

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench() -> Iterator[PtyBench]:
    with PtyBench() as wired:
        yield wired


# ---- client and server -------------------------------------------------------------------------


async def test_every_byte_passes_both_ways(bench: PtyBench) -> None:
    async with (
        served(bench.a.path) as url,
        await open_serial_port(url) as remote,
        await open_serial_port(bench.b.path) as device,
    ):
        await remote.send(EVERY_BYTE)
        assert await receive_exactly(device, len(EVERY_BYTE)) == EVERY_BYTE
        await device.send(EVERY_BYTE)
        assert await receive_exactly(remote, len(EVERY_BYTE)) == EVERY_BYTE
        await remote.drain_exact()


async def test_much_data_at_once_both_ways(bench: PtyBench) -> None:
    payload = os.urandom(300_000)
    async with (
        served(bench.a.path) as url,
        await open_serial_port(url) as remote,
        await open_serial_port(bench.b.path) as device,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(remote.send, payload)
        tasks.start_soon(device.send, payload)
        received: dict[str, bytes] = {}

        async def collect(name: str, port: SerialPort) -> None:
            received[name] = await receive_exactly(port, len(payload))

        async with anyio.create_task_group() as readers:
            readers.start_soon(collect, "device", device)
            readers.start_soon(collect, "remote", remote)
        assert received == {"device": payload, "remote": payload}


async def test_settings_reach_the_device_and_are_put_back(bench: PtyBench) -> None:
    wanted = SerialConfig(
        baudrate=19_200,
        byte_size=ByteSize.SEVEN,
        parity=Parity.EVEN,
        stop_bits=StopBits.TWO,
        flow_control=FlowControl(xon_xoff=True),
    )
    async with served(bench.a.path, SerialConfig(baudrate=57_600)) as url:
        async with await open_serial_port(url, wanted) as remote:
            settings = termios.tcgetattr(bench.a._follower)
            assert settings[4] == termios.B19200
            assert settings[2] & termios.CSTOPB
            assert settings[0] & termios.IXON
            assert remote.actual_baudrate == 19_200
            await remote.configure(SerialConfig(baudrate=9600))
            settings = termios.tcgetattr(bench.a._follower)
            assert settings[4] == termios.B9600
            assert not settings[0] & termios.IXON
            assert remote.config.baudrate == 9600
        await until(lambda: termios.tcgetattr(bench.a._follower)[4] == termios.B57600)


async def test_a_refused_setting_leaves_the_previous_ones(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(url) as remote:
        before = remote.config
        with pytest.raises(UnsupportedConfigurationError, match="did not take stop bits"):
            await remote.configure(SerialConfig(baudrate=9600, stop_bits=StopBits.ONE_POINT_FIVE))
        assert remote.config == before
        assert termios.tcgetattr(bench.a._follower)[4] == termios.B115200
        with pytest.raises(UnsupportedConfigurationError, match="two kinds of flow control"):
            await remote.configure(
                SerialConfig(flow_control=FlowControl(xon_xoff=True, rts_cts=True))
            )
        assert remote.config == before


async def test_lines_both_ways(bench: PtyBench) -> None:
    async with (
        served(bench.a.path) as url,
        await open_serial_port(url) as remote,
        await open_serial_port(bench.b.path) as device,
    ):
        await remote.set_control_lines(rts=False, dtr=True)
        lines = await device.modem_lines()
        assert (lines.cts, lines.dsr) == (False, True)
        own = await remote.control_lines()
        assert (own.rts, own.dtr) == (False, True)
        await device.set_control_lines(rts=True, dtr=False)
        with anyio.fail_after(30):
            while not (await remote.modem_lines()).cts:
                await anyio.lowlevel.checkpoint()
        assert not (await remote.modem_lines()).dsr
        assert remote.capabilities.modem_lines is Capability.SUPPORTED


async def test_who_waits_for_a_line_is_woken(bench: PtyBench) -> None:
    async with (
        served(bench.a.path) as url,
        await open_serial_port(url) as remote,
        await open_serial_port(bench.b.path) as device,
    ):
        event = await event_during(
            remote, lambda state: device.set_control_lines(rts=state), dsr=False, cd=False
        )
        assert event.cts_changed


async def test_errors_of_the_device_are_counted_at_the_client(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(url) as remote:
        await remote.configure(remote.config)  # the mask of errors has reached the server
        assert (await remote.error_counters()).total_errors == 0
        bench.a.driver.counters["parity"] += 3
        bench.a.driver.counters["brk"] += 1
        with anyio.fail_after(30):
            while (await remote.error_counters()).parity_errors == 0:
                await anyio.lowlevel.checkpoint()
        assert (await remote.error_counters()).breaks == 1
        assert (await remote.error_counters()).framing_errors == 0


async def test_a_break_is_held_at_the_device(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(url) as remote:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(remote.send_break, 60)
            await until(lambda: bench.a.driver.breaking)
            tasks.cancel_scope.cancel()
        await until(lambda: not bench.a.driver.breaking)


async def test_a_break_ends_with_the_connection(bench: PtyBench) -> None:
    async with served(bench.a.path) as url:
        number = int(url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:
            await stream.send(b"\xff\xfa\x2c\x05\x05\xff\xf0")
            await until(lambda: bench.a.driver.breaking)
        await until(lambda: not bench.a.driver.breaking)


async def test_bytes_behind_a_break_arrive_though_the_client_has_left(bench: PtyBench) -> None:
    async with (
        served(bench.a.path) as url,
        await open_serial_port(bench.b.path) as device,
    ):
        number = int(url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:
            await stream.send(b"\xff\xfa\x2c\x05\x05\xff\xf0after it")
        with anyio.fail_after(60):
            assert await device.receive_exactly(8) == b"after it"
        assert not bench.a.driver.breaking


async def test_a_line_that_the_server_does_not_switch_is_told(bench: PtyBench) -> None:
    bench.a.driver.lines = termios.TIOCM_RTS | termios.TIOCM_DTR
    async with served(bench.a.path) as url, await open_serial_port(url) as remote:
        bench.a.driver.fail[termios.TIOCMBIC] = errno.EPERM
        with pytest.raises(UnsupportedFeatureError, match="did not switch RTS off"):
            await remote.set_control_lines(rts=False)
        with pytest.raises(UnsupportedFeatureError, match="did not switch DTR off"):
            await remote.set_control_lines(dtr=False)
        lines = await remote.control_lines()
        assert (lines.rts, lines.dtr) == (True, True)
        del bench.a.driver.fail[termios.TIOCMBIC]
        await remote.set_control_lines(rts=False)
        assert not (await remote.control_lines()).rts


@pytest.mark.parametrize(
    "call", ["modem_lines", "control_lines", "error_counters", "wait_modem_event", "drain"]
)
async def test_every_call_says_that_the_server_has_gone(bench: PtyBench, call: str) -> None:
    async with anyio.create_task_group() as tasks:
        async with served(bench.a.path) as url:
            remote = await open_serial_port(url)
            await remote.modem_lines()
            if call == "wait_modem_event":
                tasks.start_soon(says_disconnected, remote, call)
                await anyio.wait_all_tasks_blocked()
        # Nobody has received since: the bytes do not tell.
        await anyio.wait_readable(remote._device.fileno())
        await says_disconnected(remote, call)
        with pytest.raises(SerialDisconnectedError):
            remote.input_waiting()
        assert not remote.is_open
    # Not before who waits has been told: closing would tell him something else.
    await remote.aclose()


async def says_disconnected(port: SerialPort, call: str) -> None:
    with anyio.fail_after(60), pytest.raises(SerialDisconnectedError):
        await getattr(port, call)()


async def test_discards_reach_the_server(bench: PtyBench) -> None:
    async with (
        served(bench.a.path) as url,
        await open_serial_port(url) as remote,
        await open_serial_port(bench.b.path) as device,
    ):
        await device.send(b"stale")
        with anyio.fail_after(30):
            while remote.input_waiting() < 5:
                await anyio.lowlevel.checkpoint()
        await remote.reset_input_buffer()
        await remote.modem_lines()
        await remote.configure(remote.config)  # answered after the discard has been
        assert remote.input_waiting() == 0
        await device.send(b"fresh")
        assert await receive_exactly(remote, 5) == b"fresh"
        await remote.reset_output_buffer()
        await remote.send(b"and on")
        assert await receive_exactly(device, 6) == b"and on"


async def test_a_slow_reader_holds_the_device_back_and_still_hears_answers(
    bench: PtyBench,
) -> None:
    payload = os.urandom(600_000)
    async with (
        served(bench.a.path) as url,
        await open_serial_port(url) as remote,
        await open_serial_port(bench.b.path) as device,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(device.send, payload)
        with anyio.fail_after(30):
            while remote.input_waiting() < 65_536:
                await anyio.lowlevel.checkpoint()
        await remote.configure(SerialConfig(baudrate=9600))
        await remote.modem_lines()
        assert await receive_exactly(remote, len(payload)) == payload


async def test_a_device_that_takes_nothing_can_still_be_spoken_to(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(url) as remote:
        async with anyio.create_task_group() as tasks:
            # Nobody reads at the far end: the server's device, then the server, are full.
            tasks.start_soon(remote.send, bytes(4_000_000))
            session = remote._device._session  # type: ignore[attr-defined]
            # The server may say so while all that was sent so far is still on its way.
            await until(lambda: session._held_back and remote.output_waiting() > 0)
            tasks.cancel_scope.cancel()
        await remote.reset_output_buffer()
        await until(lambda: not session._held_back)
        await remote.configure(SerialConfig(baudrate=9600))
        async with await open_serial_port(bench.b.path) as device:
            await device.reset_input_buffer()
            await remote.send(b"\x01after")
            data = b""
            while not data.endswith(b"\x01after"):
                data += await device.receive()


async def test_an_unplugged_device_ends_server_and_clients(bench: PtyBench) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with anyio.create_task_group() as tasks:

            async def serve(*, task_status: Any) -> None:
                await serve_serial_port(bench.a.path, port=0, task_status=task_status)

            number = await tasks.start(serve)
            async with await open_serial_port(f"rfc2217://127.0.0.1:{number}") as remote:
                bench.unplug(bench.a)
                with anyio.CancelScope(shield=True), pytest.raises(SerialDisconnectedError):
                    await remote.receive()
    assert caught.group_contains(SerialDisconnectedError)


async def test_a_device_that_goes_during_a_command_ends_the_serving() -> None:
    port, device = serial_port_pair()
    async with port, device:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        number = listener.extra(anyio.abc.SocketAttribute.local_port)

        async def go_away() -> None:
            raise disconnected_error(port.path)

        port.reset_output_buffer = go_away  # type: ignore[method-assign]
        with pytest.raises(BaseExceptionGroup) as caught:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_and_close, Rfc2217Server(port), listener)
                async with await open_serial_port(f"rfc2217://127.0.0.1:{number}") as remote:
                    await remote.reset_output_buffer()
                    await anyio.sleep(60)
        assert caught.group_contains(SerialDisconnectedError)


async def test_a_loop_can_be_served() -> None:
    async with served("loop://") as url, await open_serial_port(url) as remote:
        await remote.send(b"\xffecho")
        assert await receive_exactly(remote, 5) == b"\xffecho"
        event = await event_during(
            remote, lambda state: remote.set_control_lines(rts=state), dsr=False
        )
        assert event.cts_changed


async def test_an_unplugging_is_noticed_while_nobody_is_connected(bench: PtyBench) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        async with anyio.create_task_group() as tasks:

            async def serve(*, task_status: Any) -> None:
                await serve_serial_port(bench.a.path, port=0, task_status=task_status)

            url = f"rfc2217://127.0.0.1:{await tasks.start(serve)}"
            async with await open_serial_port(url) as remote:
                await remote.configure(remote.config)
            await anyio.wait_all_tasks_blocked()
            bench.unplug(bench.a)
            await anyio.sleep(30)
    assert caught.group_contains(SerialDisconnectedError)


async def serve_and_close(server: Rfc2217Server, listener: Any) -> None:
    async with listener:
        await server.serve(listener)


async def test_what_comes_between_two_clients_is_not_for_the_second() -> None:
    port, device = serial_port_pair()
    async with port, device, anyio.create_task_group() as tasks:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        number = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(serve_and_close, Rfc2217Server(port), listener)
        await device.send(b"nobody hears")
        await until(lambda: port.input_waiting() == 0)
        async with await open_serial_port(f"rfc2217://127.0.0.1:{number}") as remote:
            await remote.configure(remote.config)
            await device.send(b"for you")
            assert await receive_exactly(remote, 7) == b"for you"
        tasks.cancel_scope.cancel()


async def test_a_second_client_is_sent_away_and_a_later_one_served(bench: PtyBench) -> None:
    async with served(bench.a.path) as url:
        async with await open_serial_port(url) as remote:
            with pytest.raises(PortBusyError, match="in use by another client"):
                await open_serial_port(url)
            await remote.configure(remote.config)
        async with await open_serial_port(url) as later:
            await later.configure(later.config)


async def test_a_client_that_comes_back_at_once_is_served(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(bench.b.path) as device:
        for turn in range(20):
            async with await open_serial_port(url) as remote:
                await remote.send(bytes((turn,)))
            assert await receive_exactly(device, 1) == bytes((turn,))


async def test_clients_that_wait_for_their_turn_are_served_one_after_another(
    bench: PtyBench,
) -> None:
    served_now = most = 0

    async def use(url: str) -> None:
        nonlocal served_now, most
        while True:
            try:
                async with await open_serial_port(url) as remote:
                    served_now += 1
                    most = max(most, served_now)
                    await remote.configure(remote.config)
                    served_now -= 1
                    return
            except PortBusyError:
                continue

    async with served(bench.a.path) as url, anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(use, url)
    assert most == 1


async def test_who_meets_a_client_that_is_being_wound_up_is_told_so(bench: PtyBench) -> None:
    async with served(bench.a.path) as url:
        number = int(url.rpartition(":")[2])
        async with await open_serial_port(bench.b.path):  # takes nothing
            with socket.create_connection(("127.0.0.1", number)) as client:
                client.sendall(bytes(100_000))
                client.shutdown(socket.SHUT_WR)
                with pytest.raises(PortBusyError, match="sends what its last client left"):
                    await open_serial_port(url)


async def test_a_client_that_left_more_than_the_device_takes_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_client, "_STOP_READING_AT", 1000)
    monkeypatch.setattr(remote_client, "_LOOK_FOR_CLIENT_S", 0.001)
    monkeypatch.setattr(remote_client, "_LONGEST_LINGER_S", 0.001)
    port, device = serial_port_pair()
    async with port, device, anyio.create_task_group() as tasks:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        server = Rfc2217Server(port)
        tasks.start_soon(serve_and_close, server, listener)
        number = listener.extra(anyio.abc.SocketAttribute.local_port)

        def send_until_held_back(client: socket.socket) -> None:
            client.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                while client.send(bytes(65_536)):
                    pass

        with socket.create_connection(("127.0.0.1", number)) as client:
            await anyio.to_thread.run_sync(send_until_held_back, client)
            assert server.is_serving
        await until(lambda: not server.is_serving)
        tasks.cancel_scope.cancel()


async def test_what_was_sent_before_the_client_left_arrives(bench: PtyBench) -> None:
    payload = os.urandom(50_000)
    async with served(bench.a.path) as url, await open_serial_port(bench.b.path) as device:
        remote = await open_serial_port(url)
        async with anyio.create_task_group() as tasks:

            async def send_and_leave() -> None:
                await remote.send(payload)
                await remote.aclose()

            tasks.start_soon(send_and_leave)
            assert await receive_exactly(device, len(payload)) == payload


async def test_a_telnet_server_that_is_none_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"rfc2217://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(SerialTimeoutError, match="did not answer the telnet negotiation"):
            await open_serial_port(url + "?timeout=0.2")

        def refuse() -> None:
            peer, _ = listener.accept()  # the one that timed out
            peer.close()
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"login: \xff\xfe\x2c\xff\xfc\x2c")
                peer.recv(1000)
                peer.recv(1000)

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(UnsupportedFeatureError, match="does not speak RFC 2217"):
            await open_serial_port(url)
        await anyio.to_thread.run_sync(thread.join)
    with pytest.raises(PortNotFoundError):
        await open_serial_port(url)


async def test_a_server_that_stops_answering_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def agree_and_fall_silent() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"\xff\xfd\x2c")
                while peer.recv(1000):
                    pass

        thread = threading.Thread(target=agree_and_fall_silent)
        thread.start()
        url = f"rfc2217://127.0.0.1:{listener.getsockname()[1]}?timeout=0.2"
        with pytest.raises(SerialTimeoutError, match=r"setting of the baud rate within 0\.2 s"):
            await open_serial_port(url)
        await anyio.to_thread.run_sync(thread.join)


async def test_a_client_that_babbles_is_no_harm(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(bench.b.path) as device:
        number = int(url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:
            await stream.send(
                b"\xff\xfd\x63\xff\xfb\x63"  # unknown options
                b"\xff\xfa\x2c\x01\xff\xf0"  # a baud rate without its bytes
                b"\xff\xfa\x2c\xff\xf0\xff\xfa\x2c\x63\x01\xff\xf0"  # no command, unknown command
                b"\xff\xfa\x2c\x05\x63\xff\xf0\xff\xfa\x2c\x0c\x09\xff\xf0"  # unknown values
                b"\xff\xf6\xff\xf0\xff\xfa\x2c\x00\xff\xf0through"  # then a question: who are you
            )
            assert await receive_exactly(device, 7) == b"through"
            answer = b""
            while b"penstock.serial\xff\xf0" not in answer:
                answer += await stream.receive()
            assert b"\xff\xfc\x63\xff\xfe\x63" in answer


async def test_a_client_that_never_ends_a_subnegotiation_is_dropped(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(bench.b.path) as device:
        number = int(url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:
            await stream.send(b"before\xff\xfa\x2c")
            assert await receive_exactly(device, 6) == b"before"
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                with anyio.fail_after(60):
                    while True:
                        await stream.send(bytes(2 * LONGEST_SUBNEGOTIATION))
                        await stream.receive()


async def test_what_comes_under_a_suspension_waits_for_its_end() -> None:
    port, device = serial_port_pair()
    async with port, device, anyio.create_task_group() as tasks:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        tasks.start_soon(serve_and_close, Rfc2217Server(port), listener)
        number = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:

            async def after(command: int) -> bytes:
                """What comes until the server has passed a command and a question behind it."""
                await stream.send(
                    subnegotiation(Option.COM_PORT, bytes((command,)))
                    + subnegotiation(Option.COM_PORT, bytes((0,)))
                )
                received = b""
                while b"penstock.serial\xff\xf0" not in received:
                    received += await stream.receive()
                return received

            await after(8)  # FLOWCONTROL-SUSPEND, while the server waits for the device
            await device.send(b"held")
            await until(lambda: port.input_waiting() == 0)  # the server has it
            assert b"held" not in await after(0)
            received = await after(9)  # FLOWCONTROL-RESUME
            while b"held" not in received:
                received += await stream.receive()
        tasks.cancel_scope.cancel()


noise = st.one_of(
    st.binary(max_size=20),
    st.builds(
        lambda command, value: subnegotiation(Option.COM_PORT, bytes((command,)) + value),
        st.integers(0, 13),
        st.binary(max_size=5),
    ),
    st.builds(lambda *three: bytes((255, *three)), st.integers(240, 254), st.integers(0, 255)),
)


@settings(max_examples=40)
@given(st.lists(noise, max_size=20))
def test_whatever_a_client_sends_the_next_one_is_served(babble: list[bytes]) -> None:
    async def serve_both() -> None:
        port, device = serial_port_pair()
        async with port, device, anyio.create_task_group() as tasks:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
            number = listener.extra(anyio.abc.SocketAttribute.local_port)
            server = Rfc2217Server(port)
            tasks.start_soon(serve_and_close, server, listener)
            async with await anyio.connect_tcp("127.0.0.1", number) as stream:
                with contextlib.suppress(anyio.BrokenResourceError):
                    await stream.send(b"".join(babble))
                    await stream.send_eof()
                    while True:
                        try:
                            await stream.receive()
                        except anyio.EndOfStream:
                            break
            await until(lambda: not server.is_serving)
            assert port.config == SerialConfig()
            await device.reset_input_buffer()
            async with await open_serial_port(f"rfc2217://127.0.0.1:{number}") as remote:
                await remote.send(b"\xffserved")
                assert await receive_exactly(device, 7) == b"\xffserved"
            tasks.cancel_scope.cancel()

    anyio.run(serve_both)
