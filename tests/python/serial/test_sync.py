"""The port without an event loop: time-outs, threads, signals, forks."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import anyio.to_thread
import pytest

from penstock.serial import (
    ConfigurationError,
    PortBusyError,
    PortNotFoundError,
    RS485Config,
    SerialClosedError,
    SerialConfig,
    SerialDisconnectedError,
    SerialStreamAttribute,
    UnsupportedFeatureError,
    ttyioctl,
)
from penstock.serial.rfc2217 import serve_serial_port
from penstock.serial.sync import (
    SerialConnectable,
    SerialPort,
    configure_portal,
    open_serial_port,
)
from penstock.serial.sync.poll_readiness import PollReadiness
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer

CTS, DSR, RI = (getattr(ttyioctl.termios, f"TIOCM_{name}") for name in ("CTS", "DSR", "RI"))


@pytest.fixture
def port(peer: PtyPeer) -> Iterator[SerialPort]:
    with open_serial_port(peer.path) as opened:
        yield opened


def in_thread(function: Callable[[], Any]) -> Callable[[], Any]:
    """Begin *function* in a thread; the result returns its result or raises its exception."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as exc:
            outcome.append((None, exc))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join() -> Any:
        thread.join(60)
        assert not thread.is_alive()
        result, error = outcome[0]
        if error is not None:
            raise error
        return result

    return join


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        os.sched_yield()


def receives(port: SerialPort) -> bool:
    return port._receive_lock.locked()


def test_bytes_go_both_ways(port: SerialPort, peer: PtyPeer) -> None:
    peer.write(b"abcdef")
    assert port.receive(2) == b"ab"
    buffer = bytearray(2)
    assert port.receive_into(buffer) == 2
    assert buffer == b"cd"
    assert port.input_waiting() == 2
    assert port.receive_available() == b"ef"
    port.send(b"xy")
    port.send_buffer(memoryview(bytearray(b"z")))
    port.send(b"")
    port.send_eof()
    assert os.read(peer.fd, 10) == b"xyz"
    assert port.output_waiting() == 0


def test_a_receiver_waits_for_the_first_byte(port: SerialPort, peer: PtyPeer) -> None:
    received = in_thread(port.receive)
    wait_until(lambda: receives(port))
    peer.write(b"late")
    assert received()[0:1] == b"l"


def test_lines_and_counts_are_received_whole(port: SerialPort, peer: PtyPeer) -> None:
    peer.write(b"one\rtwo\rrest")
    assert port.receive_until(b"\r") == b"one"
    assert port.receive_until(b"\r", timeout=10) == b"two"
    assert port.receive_exactly(4) == b"rest"
    peer.write(b"no end")
    with pytest.raises(anyio.DelimiterNotFound):
        port.receive_until(b"\r", 4)
    assert port.receive_exactly(6) == b"no end"


RECEIVES: dict[str, Callable[[SerialPort, float], object]] = {
    "receive": lambda port, timeout: port.receive(timeout=timeout),
    "receive_into": lambda port, timeout: port.receive_into(bytearray(4), timeout=timeout),
    "receive_available": lambda port, timeout: port.receive_available(timeout=timeout),
    "receive_exactly": lambda port, timeout: port.receive_exactly(4, timeout=timeout),
    "receive_until": lambda port, timeout: port.receive_until(b"\r", timeout=timeout),
}


@pytest.mark.parametrize("call", RECEIVES)
@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_receive_that_runs_out_of_time_is_a_plain_timeout(
    port: SerialPort, peer: PtyPeer, call: str, timeout: float
) -> None:
    with pytest.raises(TimeoutError, match=f"{peer.path}: .* was received within"):
        RECEIVES[call](port, timeout)
    assert port.is_open
    peer.write(b"abc\r")
    assert RECEIVES[call](port, 60)


@pytest.mark.parametrize("call", ["receive_exactly", "receive_until"])
def test_what_came_before_the_timeout_is_not_lost(
    port: SerialPort, peer: PtyPeer, call: str
) -> None:
    peer.write(b"abc")
    with pytest.raises(TimeoutError):
        RECEIVES[call](port, 0.01)
    assert port.input_waiting() == 3
    assert port.receive() == b"abc"


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused(port: SerialPort, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
        port.receive(timeout=timeout)
    for call in (port.modem_lines, port.control_lines, port.set_control_lines, port.error_counters):
        with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
            call(timeout=timeout)
    for call in (port.reset_input_buffer, port.reset_output_buffer, port.drain, port.send_eof):
        with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
            call(timeout=timeout)
    with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
        port.configure(SerialConfig(), timeout=timeout)


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused_also_where_nothing_waits(
    port: SerialPort, peer: PtyPeer, timeout: float
) -> None:
    peer.write(b"abc")
    for receive in RECEIVES.values():
        with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
            receive(port, timeout)
    with pytest.raises(ValueError, match="timeout must be 0 or more seconds"):
        port.send(b"x", timeout=timeout)
    assert port.receive() == b"abc"


@pytest.mark.parametrize(
    "call",
    [
        lambda port: port.receive(timeout="x"),
        lambda port: port.receive_exactly(3, timeout="x"),
        lambda port: port.send(b"x", timeout="x"),
        lambda port: port.drain(timeout=[]),
        lambda port: port.close(timeout="x"),
    ],
)
def test_a_time_out_of_another_type_is_refused_in_a_sentence(
    port: SerialPort, call: Callable[[SerialPort], object]
) -> None:
    with pytest.raises(TypeError, match=r"must be a number of seconds, or None, not ('x'|\[\])"):
        call(port)
    assert port.is_open


LONG_TIMES = [25 * 86_400, 1e10, 1e300]


@pytest.mark.parametrize("timeout", LONG_TIMES)
def test_a_time_out_may_be_as_long_as_it_likes(
    port: SerialPort, peer: PtyPeer, timeout: float
) -> None:
    port.send(b"question")  # what follows a question waits before it reads
    peer.write(b"answer")
    assert port.receive_exactly(6, timeout=timeout) == b"answer"


@pytest.mark.parametrize("seconds", LONG_TIMES)
def test_a_wait_for_a_large_descriptor_may_be_as_long_as_it_likes(
    peer: PtyPeer, seconds: float
) -> None:
    large = fcntl.fcntl(peer._follower, fcntl.F_DUPFD_CLOEXEC, 1024)
    room = PollReadiness(large)
    try:
        peer.raw()
        peer.write(b"answer")
        assert room.wait_readable(time.monotonic() + seconds)
    finally:
        room.discard()
        os.close(large)


def test_a_send_that_runs_out_of_time_tells_how_much_went(port: SerialPort, peer: PtyPeer) -> None:
    with pytest.raises(TimeoutError, match=r"(\d+) of 200000 bytes were sent") as caught:
        port.send(bytes(200_000), timeout=0.01)
    sent = int(str(caught.value).split(": ")[1].split()[0])
    received = 0
    while received < sent:
        received += len(os.read(peer.fd, 65_536))
    assert received == sent


def test_more_than_the_kernel_holds_is_sent_whole(port: SerialPort, peer: PtyPeer) -> None:
    data = os.urandom(200_000)
    sent = in_thread(lambda: port.send(data))
    os.set_blocking(peer.fd, True)
    received = b""
    while len(received) < len(data):
        received += os.read(peer.fd, 65_536)
    sent()
    assert received == data


@pytest.mark.parametrize("call", RECEIVES)
def test_closing_from_another_thread_wakes_a_receiver(port: SerialPort, call: str) -> None:
    waiting = in_thread(lambda: RECEIVES[call](port, 60))
    wait_until(lambda: receives(port))
    port.close()
    with pytest.raises(SerialClosedError):
        waiting()


def test_closing_wakes_a_sender_and_a_break(peer: PtyPeer, driver: EmulatedDriver) -> None:
    for call in (lambda port: port.send(bytes(200_000)), lambda port: port.send_break(60)):
        port = open_serial_port(peer.path)
        waiting = in_thread(lambda call=call, port=port: call(port))  # type: ignore[misc]
        wait_until(port._send_lock.locked)
        port.close()
        with pytest.raises(SerialClosedError):
            waiting()
        assert not driver.breaking
        while True:
            try:
                os.read(peer.fd, 65_536)
            except BlockingIOError:
                break


def test_a_signal_handler_may_close_the_port_under_its_own_receive(
    port: SerialPort, peer: PtyPeer
) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: port.close())
    main = threading.get_ident()
    try:

        def interrupt() -> None:
            wait_until(lambda: receives(port))
            signal.pthread_kill(main, signal.SIGUSR1)

        done = in_thread(interrupt)
        with pytest.raises(SerialClosedError):
            port.receive(timeout=60)
        done()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert port._device.fileno() == -1
    with open_serial_port(peer.path):
        pass


def test_a_second_thread_is_refused_and_the_first_goes_on(port: SerialPort, peer: PtyPeer) -> None:
    first = in_thread(port.receive)
    wait_until(lambda: receives(port))
    for call in (port.receive, port.receive_available):
        with pytest.raises(anyio.BusyResourceError):
            call()
    peer.write(b"x")
    assert first() == b"x"


def test_one_thread_receives_while_another_sends(port: SerialPort, peer: PtyPeer) -> None:
    receiving = in_thread(lambda: port.receive_exactly(3))
    wait_until(lambda: receives(port))
    port.send(b"request")
    assert os.read(peer.fd, 100) == b"request"
    peer.write(b"yes")
    assert receiving() == b"yes"


CALLS: dict[str, Callable[[SerialPort], object]] = {
    **{name: lambda port, name=name: RECEIVES[name](port, 1) for name in RECEIVES},  # type: ignore[misc]
    "send": lambda port: port.send(b"x"),
    "send nothing": lambda port: port.send(b""),
    "drain": lambda port: port.drain(),
    "drain_exact": lambda port: port.drain_exact(),
    "send_break": lambda port: port.send_break(0),
    "configure": lambda port: port.configure(SerialConfig()),
    "modem_lines": lambda port: port.modem_lines(),
    "control_lines": lambda port: port.control_lines(),
    "set_control_lines": lambda port: port.set_control_lines(rts=True),
    "wait_modem_event": lambda port: port.wait_modem_event(timeout=1),
    "error_counters": lambda port: port.error_counters(),
    "reset_input_buffer": lambda port: port.reset_input_buffer(),
    "reset_output_buffer": lambda port: port.reset_output_buffer(),
    "input_waiting": lambda port: port.input_waiting(),
    "output_waiting": lambda port: port.output_waiting(),
}


@pytest.mark.parametrize("call", RECEIVES)
def test_after_a_question_nothing_is_read_before_the_answer_is_there(
    port: SerialPort, peer: PtyPeer, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves, refusals = port._halves, []

    def counting(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def counted(argument: Any) -> Any:
            try:
                return read(argument)
            except BlockingIOError as exc:
                refusals.append(exc)
                raise

        return counted

    monkeypatch.setattr(halves, "_read", counting(halves._read))
    monkeypatch.setattr(halves, "_readinto", counting(halves._readinto))
    for _ in range(2):
        port.send(b"?")
        received = in_thread(lambda: RECEIVES[call](port, 60))
        wait_until(lambda: receives(port) and not halves._awaits_answer)
        peer.write(b"abc\r")
        assert received()
    assert not refusals
    with pytest.raises(TimeoutError):
        RECEIVES[call](port, 0.01)
    assert len(refusals) == 1, "without a question it reads first"


@pytest.mark.parametrize("call", RECEIVES)
@pytest.mark.parametrize("asked", [False, True], ids=["", "asked"])
def test_what_is_there_already_is_received_after_a_question(
    port: SerialPort, peer: PtyPeer, call: str, asked: bool
) -> None:
    peer.write(b"abc\r")
    if asked:
        port.send(b"?")
    assert RECEIVES[call](port, 60)


@pytest.mark.parametrize("call", RECEIVES)
@pytest.mark.parametrize("end", ["closed", "unplugged"])
def test_the_end_of_the_port_is_told_also_after_a_question(
    port: SerialPort, peer: PtyPeer, call: str, end: str
) -> None:
    port.send(b"?")
    if end == "closed":
        port.close()
    else:
        peer.unplug()
    with pytest.raises(SerialClosedError if end == "closed" else SerialDisconnectedError):
        RECEIVES[call](port, 60)


@pytest.mark.parametrize("call", CALLS)
def test_every_call_on_a_closed_port_says_closed(port: SerialPort, call: str) -> None:
    port.close()
    port.close()
    assert not port.is_open
    with pytest.raises(SerialClosedError):
        CALLS[call](port)


@pytest.mark.parametrize("call", [name for name in CALLS if name != "send nothing"])
def test_every_call_on_an_unplugged_port_says_disconnected(
    port: SerialPort, peer: PtyPeer, call: str
) -> None:
    peer.unplug()
    with pytest.raises(SerialDisconnectedError):
        CALLS[call](port)
    assert not port.is_open


def test_lines_break_counters_and_queues(peer: PtyPeer, driver: EmulatedDriver) -> None:
    with open_serial_port(peer.path) as port:
        port.set_control_lines(rts=True, dtr=False)
        assert port.control_lines().rts
        driver.set_lines(CTS, CTS)
        assert port.modem_lines().cts
        driver.counters["parity"] = 3
        assert port.error_counters().parity_errors == 3
        port.send_break(0)
        assert driver.requests[-2:] == [ttyioctl.TIOCSBRK, ttyioctl.TIOCCBRK]
        with pytest.raises(TimeoutError, match="cut short"):
            port.send_break(60, timeout=0)
        assert not driver.breaking
        driver.output_queue = 5
        with pytest.raises(TimeoutError, match="output is still waiting"):
            port.drain(timeout=0.01)
        with pytest.raises(TimeoutError):
            port.drain_exact(timeout=0)
        port.reset_output_buffer()
        port.drain()
        driver.transmitter_empty = None
        port.drain_exact()
        with pytest.raises(ConfigurationError):
            port.set_control_lines(rts=1)  # type: ignore[arg-type]


def test_a_line_that_changes_is_waited_for(peer: PtyPeer, driver: EmulatedDriver) -> None:
    with open_serial_port(peer.path) as port:
        with pytest.raises(TimeoutError, match="no line changed"):
            port.wait_modem_event(timeout=0.01)
        waiting = in_thread(lambda: port.wait_modem_event(cts=False))
        wait_until(lambda: ttyioctl.TIOCMIWAIT in driver.requests)
        driver.set_lines(CTS, CTS)
        driver.set_lines(RI, RI)
        driver.set_lines(RI, 0)
        event = waiting()
        assert event.ring
        assert not event.cts_changed


@pytest.mark.parametrize("counts", [True, False])
def test_closing_just_before_a_wait_for_a_line_begins_is_told_as_ever(
    peer: PtyPeer, driver: EmulatedDriver, counts: bool
) -> None:
    port = open_serial_port(peer.path)
    room = port._halves.room
    name = "wait_for" if counts else "sleep_until"
    wait = getattr(room, name)
    if not counts:
        driver.fail[ttyioctl.TIOCMIWAIT] = errno.ENOTTY

    def close_first(*args: Any) -> Any:
        in_thread(port.close)()
        return wait(*args)

    setattr(room, name, close_first)
    with pytest.raises(SerialClosedError):
        port.wait_modem_event(timeout=60)


def test_rs485_in_software_takes_and_releases_the_line(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    config = SerialConfig(rs485=RS485Config(software=True, delay_before_send=0.001))
    with open_serial_port(peer.path, config) as port:
        states: list[tuple[int, int]] = []
        rts = ttyioctl.termios.TIOCM_RTS
        driver.on_request = lambda request: states.append((request, driver.lines & rts))
        port.send(b"x")
        assert os.read(peer.fd, 1) == b"x"
        assert (ttyioctl.termios.TIOCOUTQ, rts) in states
        assert not driver.lines & rts


def test_settings_are_changed_and_put_back(peer: PtyPeer) -> None:
    with SerialConnectable(path=peer.path, config=SerialConfig(baudrate=9600)).connect() as port:
        assert port.config.baudrate == port.actual_baudrate == 9600
        port.configure(port.config.with_changes(baudrate=19_200))
        assert port.actual_baudrate == 19_200
        with pytest.raises(ConfigurationError):
            port.configure(None)  # type: ignore[arg-type]
        assert port.extra(SerialStreamAttribute.config) == port.config
        assert port.extra(SerialStreamAttribute.port_info, None) is port.port_info is None
        assert port.capabilities.modem_lines == "unsupported"
        assert port.path == peer.path
    assert peer.settings() == peer.found_as


def test_opening_tells_what_is_wrong(peer: PtyPeer) -> None:
    configure_portal(backend="trio")
    with pytest.raises(PortNotFoundError):
        open_serial_port("/dev/ttyNONE9")
    with pytest.raises(UnsupportedFeatureError):
        SerialPort.open("/dev/null", baudrate=9600)
    with pytest.raises(ValueError, match="not both"):
        SerialPort.open(peer.path, SerialConfig(), baudrate=9600)
    with open_serial_port(peer.path, timeout=5), pytest.raises(PortBusyError):
        open_serial_port(peer.path)


def test_a_forgotten_port_is_closed_with_a_warning(peer: PtyPeer) -> None:
    port = open_serial_port(peer.path)
    descriptor = port._device.fileno()
    with pytest.warns(ResourceWarning, match=f"{peer.path} was never closed"):
        del port
        gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


FORKING = """
import os, sys, threading
from penstock.serial.sync import open_serial_port

port = open_serial_port(sys.argv[1])
waiting = threading.Thread(target=port.receive)
waiting.start()
while not port._receive_lock.locked():
    pass
child = os.fork()
if child == 0:  # with the lock of a thread that it does not have
    try:
        port.send(b"child asks\\r")
        assert port.receive_until(b"\\r", timeout=60) == b"answer"
        port.close()  # neither unlocks nor resets what the parent uses
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert port.is_open
port.send(b"parent asks\\r")
waiting.join()
port.close()
"""


def test_a_forked_child_uses_the_port_and_leaves_it_to_the_parent(peer: PtyPeer) -> None:
    os.set_blocking(peer.fd, True)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKING, peer.path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert os.read(peer.fd, 100) == b"child asks\r"
        # The parent's thread waits too, and whichever of the two wakes first takes what is there:
        # both get answers until both have had theirs.
        os.set_blocking(peer.fd, False)
        while process.poll() is None:
            with suppress(BlockingIOError):
                os.read(peer.fd, 100)
            with suppress(BlockingIOError):
                os.write(peer.fd, b"answer\r")
            time.sleep(0.001)
        assert process.wait(60) == 0, process.stderr and process.stderr.read()
    finally:
        process.kill()
        process.communicate()


FORKING_LOOP = """
import os, sys
from penstock.serial.sync import open_serial_port

for url in ("loop://", "spy://loop://?file=/dev/null"):
    with open_serial_port(url) as port:
        port.send(b"before")
        child = os.fork()
        if child == 0:
            assert port.receive(timeout=60) == b"before"
            port.send(b"child")
            assert port.receive(timeout=60) == b"child"
            port.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        port.send(b" and after")
        assert port.receive_exactly(16, timeout=60) == b"before and after"
"""


def test_a_forked_childs_loop_is_its_own() -> None:
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING_LOOP],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        check=True,
        timeout=120,
    )


FORKING_CLIENT = """
import os, sys
from penstock.serial import SerialDisconnectedError
from penstock.serial.sync import open_serial_port

port = open_serial_port(sys.argv[1])
child = os.fork()
if child == 0:
    calls = [
        lambda: port.send(b"child"),
        port.receive,
        lambda: port.configure(port.config),
        port.modem_lines,
        port.reset_input_buffer,
        port.drain,
    ]
    for call in calls:
        try:
            call()
        except SerialDisconnectedError as error:
            assert "stayed with the parent" in str(error) or "disconnected" in str(error), error
        else:
            os._exit(1)
    port.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
port.configure(port.config)
port.send(b"parent")
assert port.receive(timeout=60) == b"answer"
port.close()
"""


@contextmanager
def served_by_rfc2217(path: str) -> Iterator[str]:
    """The URL of a server of *path*, in a thread of its own."""
    served = threading.Event()
    address: list[int] = []
    end = threading.Event()

    async def serve() -> None:
        async with anyio.create_task_group() as tasks:

            async def serving(*, task_status: anyio.abc.TaskStatus[int]) -> None:
                await serve_serial_port(path, port=0, task_status=task_status)

            address.append(await tasks.start(serving))
            served.set()
            await anyio.to_thread.run_sync(end.wait)
            tasks.cancel_scope.cancel()

    server = threading.Thread(target=anyio.run, args=(serve,))
    server.start()
    try:
        assert served.wait(60)
        yield f"rfc2217://127.0.0.1:{address[0]}"
    finally:
        end.set()
        server.join()


def test_a_forked_child_leaves_a_connection_to_its_parent(peer: PtyPeer) -> None:
    with served_by_rfc2217(peer.path) as url:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", FORKING_CLIENT, url],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        os.set_blocking(peer.fd, True)
        assert os.read(peer.fd, 100) == b"parent"
        peer.write(b"answer")
        assert process.wait(60) == 0


def test_bytes_that_a_device_keeps_itself_are_received_after_a_question(peer: PtyPeer) -> None:
    with served_by_rfc2217(peer.path) as url, open_serial_port(url) as port:
        peer.write(b"abcd")
        wait_until(lambda: port.input_waiting() == 4)
        assert port.receive(1, timeout=60) == b"a"
        port.send(b"?")
        assert port.receive(1, timeout=60) == b"b"
        port.send(b"?")
        assert port.receive_exactly(2, timeout=60) == b"cd"


def test_a_signal_does_not_end_a_receive(port: SerialPort, peer: PtyPeer) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: peer.write(b"x"))
    main = threading.get_ident()
    try:

        def interrupt() -> None:
            wait_until(lambda: receives(port))
            signal.pthread_kill(main, signal.SIGUSR1)

        done = in_thread(interrupt)
        assert port.receive(timeout=60) == b"x"
        done()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_driver_error_is_mapped(peer: PtyPeer, driver: EmulatedDriver) -> None:
    with open_serial_port(peer.path) as port:
        driver.fail[ttyioctl.TIOCMIWAIT] = errno.ENOTTY
        driver.fail[ttyioctl.TIOCGICOUNT] = errno.ENOTTY
        with pytest.raises(UnsupportedFeatureError):
            port.error_counters()
        waiting = in_thread(port.wait_modem_event)  # looks at the lines instead
        wait_until(lambda: ttyioctl.TIOCMIWAIT in driver.requests)
        driver.set_lines(DSR, DSR)
        assert waiting().dsr_changed
