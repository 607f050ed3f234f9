"""Instruments are found on real ports, and nothing that goes wrong there is raised."""

from __future__ import annotations

import pytest

from penstock.alicat import (
    AlicatConnectionError,
    AlicatManager,
    AlicatTimeoutError,
    DeviceKind,
    DiscoveryResult,
    InvalidUnitIdError,
    find_devices,
    list_serial_ports,
    open_device,
    probe,
)
from penstock.alicat._devices.factory import port_key
from penstock.alicat.transport import port_address
from penstock.sim import Bus, MassFlowController, open_pty, open_rfc2217, open_tcp

pytestmark = pytest.mark.anyio

BAUD = 115200
# For those that answer: a machine that is late by this much is no test's subject.
TIMEOUT = 20.0


async def test_every_unit_of_a_bus_is_found() -> None:
    bus = Bus([MassFlowController("A"), MassFlowController("C", serial_number="77")], baudrate=BAUD)
    seen: list[DiscoveryResult] = []
    async with open_pty(bus) as port:
        results = await find_devices(
            [port], unit_ids="ABC", baudrates=[BAUD], timeout=2, progress=seen.append
        )
    assert [(result.unit_id, result.ok) for result in results] == [
        ("A", True),
        ("C", True),
        ("B", False),
    ]
    found = results[1].device_info
    assert found is not None
    assert (found.serial, found.kind) == ("77", DeviceKind.FLOW_CONTROLLER)
    assert isinstance(results[2].error, AlicatTimeoutError)
    assert sorted(result.unit_id for result in seen) == ["A", "B", "C"]


async def test_port_that_does_not_open_is_asked_once_and_told() -> None:
    results = await find_devices(["/dev/ttyNOWHERE"], unit_ids="AB")
    assert [result.baudrate for result in results] == [19200, 19200]
    assert all(isinstance(result.error, AlicatConnectionError) for result in results)


async def test_search_of_a_port_ends_with_its_first_instrument() -> None:
    async with open_pty(Bus([MassFlowController("A")], baudrate=BAUD)) as port:
        results = await find_devices(
            [port, port], baudrates=[BAUD, 9600], timeout=TIMEOUT, stop_on_first_hit=True
        )
    assert [(result.port, result.baudrate, result.ok) for result in results] == [(port, BAUD, True)]


async def test_probe_asks_for_one_unit() -> None:
    async with open_pty(Bus([MassFlowController("B")], baudrate=BAUD)) as port:
        assert (await probe(port, unit_id="b", baudrate=BAUD, timeout=TIMEOUT)).ok
    with pytest.raises(InvalidUnitIdError):
        await probe("/dev/ttyNOWHERE", unit_id="AB")


async def test_ports_of_this_machine_are_paths() -> None:
    assert all(port.startswith("/") for port in await list_serial_ports())


@pytest.mark.parametrize("form", ["tcp://127.0.0.1:{}", "127.0.0.1:{}", "socket://127.0.0.1:{}"])
async def test_instrument_behind_a_serial_server_is_opened_by_its_address(form: str) -> None:
    async with (
        open_tcp(Bus([MassFlowController("A")], baudrate=None)) as port,
        await open_device(form.format(port), timeout=TIMEOUT) as device,
    ):
        assert (await device.poll()).unit_id == "A"


async def test_server_that_refuses_is_told_in_a_sentence_of_its_own() -> None:
    async with open_tcp(Bus([MassFlowController("A")], baudrate=None)) as port:
        pass
    with pytest.raises(AlicatConnectionError, match="check that the server runs there"):
        await open_device(f"127.0.0.1:{port}")


def test_names_of_one_server_are_one_port() -> None:
    assert port_key("tcp://Lab:4001") == port_key("lab:4001") == port_key("socket://lab:4001")
    assert port_address("[::1]:4001") == "socket://[::1]:4001"
    assert port_address("/dev/ttyUSB0") == "/dev/ttyUSB0"
    assert port_address("rfc2217://lab:4001") == "rfc2217://lab:4001"


@pytest.mark.parametrize("form", ["tcp://{}", "{}", "rfc2217://{}"])
async def test_server_that_is_not_there_is_named_as_the_caller_wrote_it(
    form: str, free_tcp_port: int
) -> None:
    port = form.format(f"127.0.0.1:{free_tcp_port}")
    with pytest.raises(AlicatConnectionError) as caught:
        await open_device(port)
    assert str(caught.value) == (
        f"cannot open the port: {port}: no connection to 127.0.0.1 port {free_tcp_port} "
        "(Connection refused); check that the server runs there"
    )
    (result,) = await find_devices([port])
    assert str(result.error) == str(caught.value)
    async with AlicatManager() as manager:
        with pytest.raises(AlicatConnectionError, match="Connection refused"):
            await manager.add("fuel", port)


@pytest.mark.parametrize("form", ["tcp://127.0.0.1:{}", "127.0.0.1:{}"])
async def test_server_that_serves_another_client_has_a_sentence_of_its_own(form: str) -> None:
    async with open_tcp(Bus([MassFlowController("A")], baudrate=None)) as number:
        port = form.format(number)
        async with await open_device(port, timeout=TIMEOUT):
            sentence = f"the server at {port} closed the connection before anything was answered"
            with pytest.raises(AlicatConnectionError, match=sentence):
                await open_device(port, timeout=TIMEOUT)
            (result,) = await find_devices([port], timeout=TIMEOUT)
            assert sentence in str(result.error)
            async with AlicatManager() as manager:
                with pytest.raises(AlicatConnectionError, match="serves another client"):
                    await manager.add("fuel", port, timeout=TIMEOUT)


async def test_rfc2217_server_that_serves_another_client_has_a_sentence_of_its_own() -> None:
    async with open_rfc2217(Bus([MassFlowController("A")], baudrate=None)) as number:
        port = f"rfc2217://127.0.0.1:{number}"
        async with await open_device(port, timeout=TIMEOUT):
            with pytest.raises(AlicatConnectionError, match="in use by another client") as caught:
                await open_device(port)
            assert "share one AlicatManager" in str(caught.value)


async def test_raw_tcp_connection_is_asked_at_one_baud_rate() -> None:
    async with open_tcp(Bus([MassFlowController("A")], baudrate=None)) as number:
        found = await find_devices([f"tcp://127.0.0.1:{number}"], timeout=TIMEOUT)
        assert [result.ok for result in found] == [True]
