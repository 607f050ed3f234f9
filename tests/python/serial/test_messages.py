"""Errors are sentences that name the port once and the remedy."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.serial import RS485Config, SerialConfig, SerialError
from penstock.serial.sync import SerialPort, open_serial_port
from tests.python.serial.pty_peer import PtyPeer


def message(name: str, call: Callable[[], object]) -> str:
    """Return the error's sentence without the port's ``name`` at its start."""
    with pytest.raises(SerialError) as caught:
        call()
    sentence = str(caught.value)
    assert sentence.count(name) == 1
    return sentence.removeprefix(f"{name}: ")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            SerialConfig(low_latency=True),
            "its driver has no low-latency mode (Inappropriate ioctl for device); leave it out, "
            "or set unsupported_policy to WARN or IGNORE",
        ),
        (
            SerialConfig(rs485=RS485Config()),
            "its driver has no RS-485 mode (Inappropriate ioctl for device); leave it out, or set "
            "unsupported_policy to WARN or IGNORE",
        ),
    ],
)
def test_setting_unsupported_by_a_driver_is_reported_with_the_kernels_reason(
    peer: PtyPeer, config: SerialConfig, sentence: str
) -> None:
    assert message(peer.path, lambda: open_serial_port(peer.path, config)) == sentence


CALLS: list[tuple[str, Callable[[SerialPort], object]]] = [
    ("modem control lines", lambda port: port.modem_lines()),
    ("modem control lines", lambda port: port.set_control_lines(rts=True)),
    ("error counters", lambda port: port.error_counters()),
]


@pytest.mark.parametrize(("feature", "call"), CALLS)
def test_feature_unsupported_by_a_tty_is_reported_with_a_remedy(
    peer: PtyPeer, feature: str, call: Callable[[SerialPort], object]
) -> None:
    with open_serial_port(peer.path) as port:
        assert message(peer.path, lambda: call(port)) == (
            f"the driver does not support {feature}; do without it, or use an adapter that has it"
        )


@pytest.mark.parametrize(("feature", "call"), CALLS)
def test_feature_unsupported_by_a_socket_is_reported_with_a_remedy(
    feature: str, call: Callable[[SerialPort], object]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"socket://127.0.0.1:{listener.getsockname()[1]}"
        with open_serial_port(url) as port:
            assert message(url, lambda: call(port)) == (
                f"a socket does not support {feature}; do without it, or use rfc2217:// where "
                "the server speaks that"
            )


def test_unwritable_log_is_reported_with_a_remedy(tmp_path: Path) -> None:
    url = f"spy://loop://?file={tmp_path}/nowhere/log"
    assert message(url, lambda: open_serial_port(url)) == (
        f"cannot write the log {tmp_path}/nowhere/log (No such file or directory); name a file "
        "that you may write, in a folder that is there, as ?file=LOG"
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda port: port.send("text"),
            "a port sends bytes, not text; encode it: 'text'.encode()",
        ),
        (lambda port: port.send(5), "a port sends bytes, such as b'...', not 5"),
        (
            lambda port: port.send_buffer("text"),
            "a port sends bytes, not text; encode it: 'text'.encode()",
        ),
        (
            lambda port: port.receive_into("text"),
            "receive_into needs a writable buffer, such as a bytearray, not 'text'",
        ),
        (
            lambda port: port.receive_into(None),
            "receive_into needs a writable buffer, such as a bytearray, not None",
        ),
        (
            lambda port: port.receive("10"),
            "max_bytes must be a whole number of bytes, such as 4096, not '10'",
        ),
        (
            lambda port: port.receive(1.5),
            "max_bytes must be a whole number of bytes, such as 4096, not 1.5",
        ),
        (
            lambda port: port.receive_until(b"\r", "10"),
            "max_bytes must be a whole number of bytes, such as 4096, not '10'",
        ),
        (
            lambda port: port.receive_available(limit="10"),
            "limit must be a whole number of bytes, such as 4096, or None, not '10'",
        ),
        (
            lambda port: port.receive_exactly(None),
            "nbytes must be a whole number of bytes, such as 4096, not None",
        ),
    ],
)
def test_value_of_another_type_is_refused_in_one_sentence(
    peer: PtyPeer, call: Callable[[Any], object], sentence: str
) -> None:
    with open_serial_port(peer.path) as port, pytest.raises(TypeError) as caught:
        call(port)
    assert str(caught.value) == sentence
