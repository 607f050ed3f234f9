"""RFC 2217: Penstock's client with Penstock's server."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import termios
import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from penstock.serial import (
    ByteSize,
    Capability,
    FlowControl,
    Parity,
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
from penstock.serial.rfc2217 import Rfc2217Server, serve_serial_port
from penstock.serial.testing import PtyBench, serial_port_pair
from tests.python.serial.line_waiting import event_during
from tests.python.serial.pty_peer import until
from tests.python.serial.rfc2217_serving import EVERY_BYTE, serve_and_close, served
from tests.python.serial.test_mock_ports import receive_exactly

pytestmark = pytest.mark.anyio


async def test_every_byte_value_passes_both_ways(bench: PtyBench) -> None:
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


async def test_large_data_passes_both_ways_at_once(bench: PtyBench) -> None:
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


async def test_settings_reach_the_device_and_are_restored(bench: PtyBench) -> None:
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


async def test_refused_setting_keeps_the_previous_settings(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(url) as remote:
        before = remote.config
        with pytest.raises(UnsupportedConfigurationError, match="did not accept stop bits"):
            await remote.configure(SerialConfig(baudrate=9600, stop_bits=StopBits.ONE_POINT_FIVE))
        assert remote.config == before
        assert termios.tcgetattr(bench.a._follower)[4] == termios.B115200
        with pytest.raises(UnsupportedConfigurationError, match="two kinds of flow control"):
            await remote.configure(
                SerialConfig(flow_control=FlowControl(xon_xoff=True, rts_cts=True))
            )
        assert remote.config == before


async def test_modem_lines_pass_both_ways(bench: PtyBench) -> None:
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


async def test_line_change_wakes_a_remote_wait(bench: PtyBench) -> None:
    async with (
        served(bench.a.path) as url,
        await open_serial_port(url) as remote,
        await open_serial_port(bench.b.path) as device,
    ):
        event = await event_during(
            remote, lambda state: device.set_control_lines(rts=state), dsr=False, cd=False
        )
        assert event.cts_changed


async def test_device_errors_are_counted_at_the_client(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(url) as remote:
        await remote.configure(remote.config)  # the error mask has reached the server
        assert (await remote.error_counters()).total_errors == 0
        bench.a.driver.counters["parity"] += 3
        bench.a.driver.counters["brk"] += 1
        with anyio.fail_after(30):
            while (await remote.error_counters()).parity_errors == 0:
                await anyio.lowlevel.checkpoint()
        assert (await remote.error_counters()).breaks == 1
        assert (await remote.error_counters()).framing_errors == 0


async def test_break_is_held_at_the_device(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(url) as remote:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(remote.send_break, 60)
            await until(lambda: bench.a.driver.breaking)
            tasks.cancel_scope.cancel()
        await until(lambda: not bench.a.driver.breaking)


async def test_break_ends_with_the_connection(bench: PtyBench) -> None:
    async with served(bench.a.path) as url:
        number = int(url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:
            await stream.send(b"\xff\xfa\x2c\x05\x05\xff\xf0")
            await until(lambda: bench.a.driver.breaking)
        await until(lambda: not bench.a.driver.breaking)


async def test_bytes_after_a_break_arrive_after_the_client_has_left(bench: PtyBench) -> None:
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


async def test_line_that_the_server_does_not_switch_raises(bench: PtyBench) -> None:
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
async def test_every_call_raises_disconnected_when_the_server_has_gone(
    bench: PtyBench, call: str
) -> None:
    async with anyio.create_task_group() as tasks:
        async with served(bench.a.path) as url:
            remote = await open_serial_port(url)
            await remote.modem_lines()
            if call == "wait_modem_event":
                tasks.start_soon(assert_disconnected, remote, call)
                await anyio.wait_all_tasks_blocked()
        # There was no receive since, so no read has detected it.
        await anyio.wait_readable(remote._device.fileno())
        await assert_disconnected(remote, call)
        with pytest.raises(SerialDisconnectedError):
            remote.input_waiting()
        assert not remote.is_open
    # Close only after the waiting task has its error; an earlier close would raise another one.
    await remote.aclose()


async def assert_disconnected(port: SerialPort, call: str) -> None:
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
        await remote.configure(remote.config)  # answered after the discard
        assert remote.input_waiting() == 0
        await device.send(b"fresh")
        assert await receive_exactly(remote, 5) == b"fresh"
        await remote.reset_output_buffer()
        await remote.send(b"and on")
        assert await receive_exactly(device, 6) == b"and on"


async def test_slow_reader_suspends_the_data_and_still_gets_answers(
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


async def test_commands_pass_while_the_device_accepts_no_data(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(url) as remote:
        async with anyio.create_task_group() as tasks:
            # Nobody reads at the far end, so the device and then the server fill up.
            tasks.start_soon(remote.send, bytes(4_000_000))
            session = remote._device._session  # type: ignore[attr-defined]
            # The server may report it while sent bytes are still in transit.
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


async def test_unplugged_device_ends_server_and_clients(bench: PtyBench) -> None:
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


async def test_disconnect_during_a_command_ends_the_server() -> None:
    port, device = serial_port_pair()
    async with port, device:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        number = listener.extra(anyio.abc.SocketAttribute.local_port)

        async def unplug() -> None:
            raise disconnected_error(port.path)

        port.reset_output_buffer = unplug  # type: ignore[method-assign]
        with pytest.raises(BaseExceptionGroup) as caught:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_and_close, Rfc2217Server(port), listener)
                async with await open_serial_port(f"rfc2217://127.0.0.1:{number}") as remote:
                    await remote.reset_output_buffer()
                    await anyio.sleep(60)
        assert caught.group_contains(SerialDisconnectedError)


async def test_loop_port_can_be_served() -> None:
    async with served("loop://") as url, await open_serial_port(url) as remote:
        await remote.send(b"\xffecho")
        assert await receive_exactly(remote, 5) == b"\xffecho"
        event = await event_during(
            remote, lambda state: remote.set_control_lines(rts=state), dsr=False
        )
        assert event.cts_changed


async def test_server_that_does_not_speak_rfc2217_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"rfc2217://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(SerialTimeoutError, match="did not answer the telnet negotiation"):
            await open_serial_port(url + "?timeout=0.2")

        def refuse() -> None:
            peer, _ = listener.accept()  # the connection that timed out
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


async def error_of_a_server_that_stops_answering(timeout: float) -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def agree_then_stop_answering() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                peer.sendall(b"\xff\xfd\x2c")
                while peer.recv(1000):
                    pass

        thread = threading.Thread(target=agree_then_stop_answering)
        thread.start()
        url = f"rfc2217://127.0.0.1:{listener.getsockname()[1]}?timeout={timeout}"
        with pytest.raises(SerialTimeoutError) as caught:
            await open_serial_port(url)
        await anyio.to_thread.run_sync(thread.join)
    return str(caught.value)


async def test_server_that_stops_answering_times_out() -> None:
    # On a busy machine the server may need longer than the first time-out to agree.
    for timeout in (0.2, 2, 20):
        error = await error_of_a_server_that_stops_answering(timeout)
        if f"setting of the baud rate within {timeout} s" in error:
            return
    pytest.fail(error)


async def test_disconnect_is_detected_without_a_client(bench: PtyBench) -> None:
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
