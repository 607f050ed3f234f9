"""Names, signatures, members and bases that programs written for anyserial 0.2.0 rely on."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

import anyio
import pytest
from anyio import TypedAttributeSet
from anyio.abc import ByteStream, ByteStreamConnectable

import penstock.serial as serial
from penstock.serial import sync, testing
from penstock.serial.exceptions import errno_to_exception

NAMES = [
    "ByteSize",
    "BytesLike",
    "Capability",
    "CommEvent",
    "ConfigurationError",
    "ControlLines",
    "DiscoveryBackend",
    "FlowControl",
    "ModemLines",
    "Parity",
    "PortBusyError",
    "PortInfo",
    "PortNotFoundError",
    "RS485Config",
    "SerialCapabilities",
    "SerialClosedError",
    "SerialConfig",
    "SerialConnectable",
    "SerialDisconnectedError",
    "SerialError",
    "SerialPort",
    "SerialStreamAttribute",
    "StopBits",
    "UnsupportedAsyncBackendError",
    "UnsupportedConfigurationError",
    "UnsupportedFeatureError",
    "UnsupportedPlatformError",
    "UnsupportedPolicy",
    "__version__",
    "canonical_port_name",
    "find_serial_port",
    "list_serial_ports",
    "open_serial_port",
]

FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "open_serial_port": (serial.open_serial_port, "path, config=None"),
    "list_serial_ports": (serial.list_serial_ports, "*, backend='native'"),
    "find_serial_port": (
        serial.find_serial_port,
        "*, vid=None, pid=None, serial_number=None, device=None, backend='native'",
    ),
    "canonical_port_name": (serial.canonical_port_name, "path, *, platform=None"),
    "errno_to_exception": (errno_to_exception, "exc, *, context, path=None"),
    "SerialPort": (serial.SerialPort, "backend, config, *, port_info=None"),
    "SerialConnectable": (serial.SerialConnectable, "*, path, config=None"),
    "FlowControl.none": (serial.FlowControl.none, ""),
    "serial_port_pair": (
        testing.serial_port_pair,
        "*, config_a=None, config_b=None, path_a='/dev/mockA', path_b='/dev/mockB'",
    ),
    "faults_of": (testing.faults_of, "port"),
    "MockBackend.pair": (
        testing.MockBackend.pair,
        "*, path_a='/dev/mockA', path_b='/dev/mockB'",
    ),
    "sync.open_serial_port": (sync.open_serial_port, "path, config=None, *, timeout=None"),
    "sync.SerialConnectable": (sync.SerialConnectable, "*, path, config=None"),
    "sync.SerialConnectable.connect": (sync.SerialConnectable.connect, "self, *, timeout=None"),
    "sync.configure_portal": (
        sync.configure_portal,
        "*, backend='asyncio', backend_options=None",
    ),
}

# Waiting methods of the asynchronous port; the synchronous port adds a timeout to each.
METHODS = {
    "receive": "self, max_bytes=65536",
    "receive_into": "self, buffer",
    "receive_available": "self, *, limit=None",
    "send": "self, item",
    "send_buffer": "self, data",
    "send_eof": "self",
    "configure": "self, config",
    "reset_input_buffer": "self",
    "reset_output_buffer": "self",
    "drain": "self",
    "drain_exact": "self",
    "send_break": "self, duration=0.25",
    "modem_lines": "self",
    "set_control_lines": "self, *, rts=None, dtr=None",
}

ENUMS = {
    serial.ByteSize: {"FIVE": "5", "SIX": "6", "SEVEN": "7", "EIGHT": "8"},
    serial.Parity: {name: name.lower() for name in ("NONE", "ODD", "EVEN", "MARK", "SPACE")},
    serial.StopBits: {"ONE": "1", "ONE_POINT_FIVE": "1.5", "TWO": "2"},
    serial.Capability: {name: name.lower() for name in ("SUPPORTED", "UNSUPPORTED", "UNKNOWN")},
    serial.UnsupportedPolicy: {name: name.lower() for name in ("RAISE", "WARN", "IGNORE")},
}

# Fields in order with their defaults; ... means no default. A comment marks each default that
# differs from anyserial's.
VALUES: dict[type, dict[str, Any]] = {
    serial.ModemLines: dict.fromkeys(("cts", "dsr", "ri", "cd"), ...),
    serial.ControlLines: dict.fromkeys(("rts", "dtr"), ...),
    serial.CommEvent: dict.fromkeys(
        ("cts_changed", "dsr_changed", "rlsd_changed", "ring", "error", "break_received"), False
    ),
    serial.FlowControl: dict.fromkeys(("xon_xoff", "rts_cts", "dtr_dsr"), False),
    serial.RS485Config: {
        "enabled": True,
        "rts_on_send": True,
        "rts_after_send": False,
        "delay_before_send": 0.0,
        "delay_after_send": 0.0,
        "rx_during_tx": False,
    },
    serial.SerialConfig: {
        "baudrate": 115_200,
        "byte_size": serial.ByteSize.EIGHT,
        "parity": serial.Parity.NONE,
        "stop_bits": serial.StopBits.ONE,
        "flow_control": serial.FlowControl(),
        "exclusive": True,  # intentional: anyserial has False
        "hangup_on_close": True,
        "low_latency": False,
        "read_chunk_size": 65_536,
        "rs485": None,
        "unsupported_policy": serial.UnsupportedPolicy.RAISE,
    },
    serial.PortInfo: {
        "device": ...,
        **dict.fromkeys(
            (
                *("name", "description", "hwid", "vid", "pid", "serial_number"),
                *("manufacturer", "product", "location", "interface"),
            )
        ),
    },
    serial.SerialCapabilities: dict.fromkeys(
        (
            *("platform", "backend", "custom_baudrate", "mark_space_parity"),
            *("one_point_five_stop_bits", "xon_xoff", "rts_cts", "dtr_dsr", "modem_lines"),
            *("break_signal", "exclusive_access", "low_latency", "rs485", "input_waiting"),
            *("output_waiting", "port_discovery"),
        ),
        ...,
    ),
}

EXCEPTIONS: dict[type[BaseException], tuple[type[BaseException], ...]] = {
    serial.SerialError: (OSError,),
    serial.ConfigurationError: (serial.SerialError, ValueError),
    serial.PortNotFoundError: (serial.SerialError, FileNotFoundError),
    serial.PortBusyError: (serial.SerialError,),
    serial.UnsupportedFeatureError: (serial.SerialError, NotImplementedError),
    serial.UnsupportedConfigurationError: (serial.SerialError, ValueError),
    serial.UnsupportedPlatformError: (serial.SerialError, NotImplementedError),
    serial.SerialClosedError: (serial.SerialError, anyio.ClosedResourceError),
    serial.SerialDisconnectedError: (serial.SerialError, anyio.BrokenResourceError),
    serial.UnsupportedAsyncBackendError: (serial.SerialError, RuntimeError),
}


def shape(function: Callable[..., Any]) -> str:
    """Return a signature without its types."""
    signature = inspect.signature(function)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))[1:-1]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name: str) -> None:
    assert name in serial.__all__
    assert getattr(serial, name) is not None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_has_the_same_arguments(name: str) -> None:
    function, expected = FUNCTIONS[name]
    assert shape(function) == expected


@pytest.mark.parametrize("name", METHODS)
def test_both_ports_have_every_method(name: str) -> None:
    method = getattr(serial.SerialPort, name)
    assert inspect.iscoroutinefunction(method)
    assert shape(method) == METHODS[name]
    blocking = shape(getattr(sync.SerialPort, name))
    timeout = "timeout=None" if "*" in METHODS[name] else "*, timeout=None"
    assert blocking == f"{METHODS[name]}, {timeout}"
    assert blocking.endswith("timeout=None")


def test_ports_have_the_same_open_count_and_close_members() -> None:
    assert shape(serial.SerialPort.open) == "path, /, **config_fields"
    assert shape(serial.SerialPort.aclose) == "self"
    assert shape(sync.SerialPort.open) == "path, config=None, /, *, timeout=None, **config_fields"
    assert shape(sync.SerialPort.close) == "self, *, timeout=None"
    for port in (serial.SerialPort, sync.SerialPort):
        for name in ("path", "is_open", "config", "capabilities", "port_info"):
            assert isinstance(inspect.getattr_static(port, name), property)
        for name in ("input_waiting", "output_waiting"):
            assert shape(getattr(port, name)) == "self"
            assert not inspect.iscoroutinefunction(getattr(port, name))
    assert issubclass(serial.SerialPort, ByteStream)
    assert issubclass(serial.SerialConnectable, ByteStreamConnectable)
    assert inspect.iscoroutinefunction(serial.SerialConnectable.connect)


@pytest.mark.parametrize("kind", [serial.SerialPort, sync.SerialPort])
def test_port_around_another_object_raises_type_error(kind: Any) -> None:
    with pytest.raises(TypeError, match="is not an open serial device"):
        kind(object(), serial.SerialConfig())


@pytest.mark.parametrize("kind", ENUMS, ids=lambda kind: kind.__name__)
def test_enumeration_has_the_same_members(kind: type[StrEnum]) -> None:
    assert {member.name: member.value for member in kind} == ENUMS[kind]
    assert all(isinstance(member, str) for member in kind)


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_value_class_has_the_same_fields(kind: type) -> None:
    assert is_dataclass(kind)
    parameters = inspect.signature(kind).parameters
    ours = {
        name: ... if parameter.default is inspect.Parameter.empty else getattr(kind(), name)
        for name, parameter in parameters.items()
        if name in VALUES[kind] and (... not in VALUES[kind].values())
    }
    if ... in VALUES[kind].values():
        ours = {
            name: ... if parameter.default is inspect.Parameter.empty else parameter.default
            for name, parameter in parameters.items()
        }
    assert list(ours.items()) == list(VALUES[kind].items())
    assert all(parameter.kind == parameter.KEYWORD_ONLY for parameter in parameters.values())
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "__dict__" not in kind.__dict__  # slots
    assert [item.name for item in fields(kind)][: len(ours)] == list(ours)


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_exception_has_the_same_bases(kind: type[BaseException]) -> None:
    assert issubclass(kind, EXCEPTIONS[kind])
    error = kind(5, "message", "/dev/ttyX")
    assert isinstance(error, OSError)
    assert (error.errno, error.filename) == (5, "/dev/ttyX")


def test_typed_attributes_and_fault_plan_are_the_same() -> None:
    assert issubclass(serial.SerialStreamAttribute, TypedAttributeSet)
    for name in ("capabilities", "config", "port_info"):
        assert hasattr(serial.SerialStreamAttribute, name)
    plan = testing.FaultPlan()
    assert {
        name: getattr(plan, name)
        for name in (
            *("eagain_reads", "eagain_writes", "eintr_reads", "eintr_writes", "short_write_max"),
            *("disconnected", "raise_eio_on_read", "parity_errors"),
        )
    } == {
        "eagain_reads": 0,
        "eagain_writes": 0,
        "eintr_reads": 0,
        "eintr_writes": 0,
        "short_write_max": None,
        "disconnected": False,
        "raise_eio_on_read": False,
        "parity_errors": 0,
    }


@pytest.mark.skipif(sys.version_info < (3, 13), reason="anyserial needs Python 3.13")
def test_no_name_of_the_original_is_missing() -> None:
    original = importlib.import_module("anyserial")
    assert set(original.__all__) <= set(serial.__all__)
    for name in METHODS:
        assert shape(getattr(original.SerialPort, name)) == METHODS[name]
    members = {name for name in dir(original.SerialPort) if not name.startswith("_")}
    assert members <= set(dir(serial.SerialPort))
    blocking = importlib.import_module("anyserial.sync").SerialPort
    members = {name for name in dir(blocking) if not name.startswith("_")}
    assert members <= set(dir(sync.SerialPort))
