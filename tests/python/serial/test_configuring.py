"""Configuring an open port: all settings or none, read back from the driver."""

from __future__ import annotations

import errno
import termios
import threading
import tty
import warnings
from typing import Any

import anyio
import pytest

from penstock.serial import (
    ByteSize,
    ConfigurationError,
    FlowControl,
    Parity,
    RS485Config,
    SerialConfig,
    SerialError,
    StopBits,
    UnsupportedConfigurationError,
    UnsupportedFeatureError,
    UnsupportedPolicy,
    open_serial_port,
)
from penstock.serial._tty import system_calls
from penstock.serial._tty.device import TtyDevice
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio


async def test_new_settings_reach_the_driver(peer: PtyPeer) -> None:
    config = SerialConfig(
        baudrate=9600,
        stop_bits=StopBits.TWO,
        flow_control=FlowControl(xon_xoff=True, rts_cts=True),
    )
    async with await open_serial_port(peer.path) as port:
        await port.configure(config)
        settings = peer.settings()
        assert port.config is config
    assert settings[tty.OSPEED] == termios.B9600
    assert settings[tty.CFLAG] & termios.CSTOPB
    assert settings[tty.CFLAG] & termios.CRTSCTS
    assert settings[tty.IFLAG] == termios.IXON | termios.IXOFF


async def test_last_of_two_concurrent_configurations_is_in_force(
    peer: PtyPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_serial_port(peer.path) as port:
        marking = SerialConfig(mark_errors=True)
        configure = port._device.configure
        applied, last_is_done = threading.Event(), threading.Event()

        def apply_and_hold(config: SerialConfig) -> None:
            configure(config)
            if config is marking:
                applied.set()
                assert last_is_done.wait(60)

        monkeypatch.setattr(port._device, "configure", apply_and_hold)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.configure, marking)
            await until(applied.is_set)
            await port.configure(SerialConfig())
            last_is_done.set()
        assert not port.config.mark_errors
        peer.write(b"\xff\xff")
        assert await port.receive() == b"\xff\xff"  # nothing is decoded as a mark


async def test_pending_bytes_survive_a_new_configuration(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        peer.write(b"abc")
        await port.configure(port.config.with_changes(baudrate=9600))
        assert await port.receive() == b"abc"


async def test_waiting_receiver_survives_a_new_configuration(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        received: list[bytes] = []

        async def receive() -> None:
            received.append(await port.receive())

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await port.configure(SerialConfig(baudrate=9600))
        peer.write(b"x")
        with anyio.fail_after(30):
            while not received:
                await anyio.lowlevel.checkpoint()
    assert received == [b"x"]


async def test_pty_accepts_any_character_format(peer: PtyPeer) -> None:
    """A pty has no line format; simulators of 7E1 devices rely on this."""
    config = SerialConfig(byte_size=ByteSize.SEVEN, parity=Parity.EVEN)
    async with await open_serial_port(peer.path, config) as port:
        await port.configure(config.with_changes(parity=Parity.ODD))


@pytest.mark.parametrize(
    "change",
    [
        {"flow_control": FlowControl(dtr_dsr=True)},
        {"stop_bits": StopBits.ONE_POINT_FIVE},
        {"rs485": RS485Config()},
        {"low_latency": True},
    ],
)
async def test_unsupported_setting_changes_nothing(peer: PtyPeer, change: dict[str, Any]) -> None:
    async with await open_serial_port(peer.path) as port:
        config, settings = port.config, peer.settings()
        with pytest.raises(UnsupportedFeatureError, match=peer.path):
            await port.configure(SerialConfig(baudrate=9600, **change))
        assert port.config is config
        assert peer.settings() == settings
        assert port.actual_baudrate == 115_200


async def test_setting_that_the_driver_drops_is_refused_and_rolled_back(
    peer: PtyPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_serial_port(peer.path) as port:
        config, settings = port.config, peer.settings()
        # The pty driver keeps 8 bits without parity and reports success.
        monkeypatch.setattr(port._device, "_has_wire", True)
        wanted = SerialConfig(baudrate=9600, parity=Parity.EVEN, byte_size=ByteSize.SEVEN)
        with pytest.raises(
            UnsupportedConfigurationError, match="does not support the data bits, the parity"
        ):
            await port.configure(wanted)
        assert port.config is config
        assert peer.settings() == settings


async def test_rate_that_the_driver_rounds_too_far_is_refused(
    peer: PtyPeer, driver: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_serial_port(peer.path) as port:
        real = system_calls.set_settings

        def coarse(fd: int, settings: bytes) -> None:
            rate = int.from_bytes(settings[40:44], "little") // 100_000 * 100_000
            real(fd, settings[:40] + rate.to_bytes(4, "little"))

        monkeypatch.setattr(system_calls, "set_settings", coarse)
        with pytest.raises(UnsupportedConfigurationError, match=r"250001 baud \(it set 200000\)"):
            await port.configure(SerialConfig(baudrate=250_001))
        monkeypatch.undo()
        assert port.config.baudrate == 115_200


async def test_late_failure_undoes_every_step(peer: PtyPeer, driver: EmulatedDriver) -> None:
    async with await open_serial_port(peer.path, SerialConfig(exclusive=False)) as port:
        config, settings, rs485 = port.config, peer.settings(), driver.rs485
        driver.fail[system_calls.TIOCSRS485] = errno.EPERM
        with pytest.raises(SerialError):
            await port.configure(
                SerialConfig(baudrate=9600, exclusive=True, low_latency=True, rs485=RS485Config())
            )
        assert port.config is config
        assert peer.settings() == settings
        assert not peer.is_exclusive()
        assert driver.flags == 0
        assert driver.rs485 == rs485


async def test_low_latency_can_be_switched_at_any_time(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    driver.flags = 0x10
    async with await open_serial_port(peer.path) as port:
        await port.configure(port.config.with_changes(low_latency=True))
        assert driver.flags == 0x10 | system_calls.ASYNC_LOW_LATENCY
        await port.configure(port.config.with_changes(low_latency=False))
        assert driver.flags == 0x10


async def test_exclusivity_can_be_switched_at_any_time(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path, SerialConfig(exclusive=False)) as port:
        assert not peer.is_exclusive()
        await port.configure(port.config.with_changes(exclusive=True))
        assert peer.is_exclusive()
        await port.configure(port.config.with_changes(exclusive=False))
        assert not peer.is_exclusive()


async def test_warn_and_ignore_continue_without_the_optional_modes(peer: PtyPeer) -> None:
    wish = SerialConfig(low_latency=True, rs485=RS485Config())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn = wish.with_changes(unsupported_policy=UnsupportedPolicy.WARN)
        async with await open_serial_port(peer.path, warn):
            pass
    messages = [str(item.message) for item in caught if item.category is RuntimeWarning]
    assert [message.partition("has no ")[2] for message in messages] == [
        "low-latency mode; continuing without it",
        "RS-485 mode; continuing without it",
    ]
    ignore = wish.with_changes(unsupported_policy=UnsupportedPolicy.IGNORE)
    async with await open_serial_port(peer.path, ignore) as port:
        assert port.config is ignore


async def test_ignore_policy_never_applies_to_settings_that_change_bytes(peer: PtyPeer) -> None:
    config = SerialConfig(
        flow_control=FlowControl(dtr_dsr=True), unsupported_policy=UnsupportedPolicy.IGNORE
    )
    with pytest.raises(UnsupportedFeatureError):
        await open_serial_port(peer.path, config)


async def test_wrong_type_of_configuration_is_refused(peer: PtyPeer) -> None:
    wrong: Any = {"baudrate": 9600}
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(ConfigurationError, match="must be a SerialConfig"):
            await port.configure(wrong)


async def test_blocked_driver_does_not_block_the_loop(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    """Other tasks run while a USB adapter answers late."""
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:
        import threading

        answer = threading.Event()
        driver.on_request = lambda request: (
            None if request != system_calls.TCSETS2 else _wait(answer)
        )
        tasks.start_soon(port.configure, SerialConfig(baudrate=9600))
        await anyio.wait_all_tasks_blocked()
        assert port.config.baudrate == 115_200
        peer.write(b"x")
        assert await port.receive() == b"x"
        answer.set()
    assert TtyDevice is type(port._device)


def _wait(answer: Any) -> None:
    assert answer.wait(30)


@pytest.mark.parametrize(("rests", "level"), [(True, True), (False, False)])
async def test_rs485_line_idles_at_the_level_of_the_current_settings(
    peer: PtyPeer, driver: EmulatedDriver, rests: bool, level: bool
) -> None:
    def switched(after: bool) -> SerialConfig:
        return SerialConfig(
            rs485=RS485Config(software=True, rts_on_send=not after, rts_after_send=after)
        )

    async with await open_serial_port(peer.path, switched(not rests)) as port:
        driver.output_queue = 1  # the sender waits for the last byte
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.send, b"x")
            assert await peer.read(1) == b"x"
            await port.configure(switched(rests))
            driver.output_queue = 0
        assert bool(driver.lines & termios.TIOCM_RTS) is level
