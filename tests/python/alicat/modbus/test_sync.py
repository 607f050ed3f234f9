"""Modbus without an event loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from penstock.alicat import AlicatConnectionError, AlicatTimeoutError, SerialSettings
from penstock.alicat.modbus import (
    MASS_FLOW_METER_REGISTERS,
    ModbusFlowController,
    ModbusFlowMeter,
)
from penstock.alicat.sync import (
    SyncAlicatManager,
    SyncModbusFlowController,
    SyncModbusFlowMeter,
    open_modbus_device,
)
from tests.python.alicat.in_a_thread import served

from .instrument import Instrument, RtuServer, TcpServer, on_pty, on_tcp

TIMEOUT = 20.0

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(instrument, ...)`` is the address of these instruments, in their own thread."""
    with ExitStack() as stack:

        def start(*instruments: Instrument, tcp: bool = False) -> str:
            serving = on_tcp(TcpServer(*instruments)) if tcp else on_pty(RtuServer(*instruments))
            return served(stack, serving)

        yield start


def test_instrument_is_read_and_set_on_a_serial_line(serve: Serve) -> None:
    instrument = Instrument()
    path = serve(instrument)
    serial = SerialSettings(path, baudrate=115200)
    units = {"mass_flow_setpt": "SCCM"}
    with open_modbus_device(path, serial=serial, timeout=TIMEOUT, units=units) as device:
        assert isinstance(device, SyncModbusFlowController)
        assert device.poll().values["Gas"] == "N2"
        device.limit_setpoint(high=200.0)
        assert device.setpoint(120.0, "SCCM").accepted
        assert instrument.setpoint == 120.0
        assert device.hold_valves().held
        assert device.gas("Ar").label == "Ar"


def test_meter_is_read_over_tcp(serve: Serve) -> None:
    with open_modbus_device(
        serve(Instrument(), tcp=True),
        protocol="tcp",
        timeout=TIMEOUT,
        registers=MASS_FLOW_METER_REGISTERS,
    ) as device:
        assert type(device) is SyncModbusFlowMeter
        assert device.poll().values["Mass_Flow"] == 0.0
        assert device.field_schema()[-1].name == "Gas"
        assert device.unit_id == "1"


def test_devices_share_a_line(serve: Serve) -> None:
    path = serve(Instrument(1), Instrument(2))
    with open_modbus_device(path, timeout=TIMEOUT) as first:
        with open_modbus_device(first.client, unit=2) as second:
            assert second.poll().unit_id == "2"
        assert first.poll().unit_id == "1"
    assert not first.client.is_open


def test_failures_are_those_of_the_asynchronous_calls(serve: Serve) -> None:
    with pytest.raises(AlicatTimeoutError, match="unit 2"):
        open_modbus_device(serve(Instrument(1)), unit=2, timeout=0.05)
    with pytest.raises(AlicatConnectionError, match="does not exist"):
        open_modbus_device("/dev/ttyNOWHERE")
    with pytest.raises(ValueError, match="ascii"):
        open_modbus_device("/dev/ttyNOWHERE", protocol="ascii")
    with pytest.raises(TypeError, match="neither the path nor the client"):
        open_modbus_device(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asynchronous", "synchronous"),
    [
        (ModbusFlowMeter, SyncModbusFlowMeter),
        (ModbusFlowController, SyncModbusFlowController),
    ],
)
def test_every_method_has_a_blocking_twin(asynchronous: type, synchronous: type) -> None:
    names = [name for name in dir(asynchronous) if not name.startswith("_")]
    assert [name for name in names if not hasattr(synchronous, name)] == []
    for name in names:
        assert not inspect.iscoroutinefunction(getattr(synchronous, name))


def test_manager_holds_devices_that_are_asked_by_modbus(serve: Serve) -> None:
    path = serve(Instrument(1), Instrument(2))
    with (
        open_modbus_device(path, timeout=TIMEOUT) as first,
        open_modbus_device(first.client, unit=2) as second,
        SyncAlicatManager() as manager,
    ):
        manager.add_modbus("fuel", first)
        manager.add_modbus("air", second)
        assert [r.value.unit_id for r in manager.poll().values()] == ["1", "2"]
        assert manager.get_modbus("air").unit_id == "2"
