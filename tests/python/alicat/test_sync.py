"""Instruments without an event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager

import pytest

from penstock.alicat import (
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatTimeoutError,
    AlicatValidationError,
    BasisController,
    BasisMeter,
    Capability,
    CodaController,
    CodaMeter,
    Commands,
    Device,
    DiscoveryResult,
    ErrorPolicy,
    FlowController,
    FlowMeter,
    Gas,
    PressureController,
    PressureMeter,
    SafeState,
    SerialSettings,
    TimeUnit,
)
from penstock.alicat import commands as c
from penstock.alicat.sync import (
    Alicat,
    SyncAlicatManager,
    SyncBasisController,
    SyncBasisMeter,
    SyncCodaController,
    SyncCodaMeter,
    SyncDevice,
    SyncFlowController,
    SyncFlowMeter,
    SyncPressureController,
    SyncPressureMeter,
    find_devices,
    list_serial_ports,
    open_controller,
    open_device,
    probe,
)
from penstock.alicat.sync.waiting import BLOCKING, run_without_loop
from penstock.serial.sync import open_serial_port
from penstock.sim import Bus, BusFaults, MassFlowController, MassFlowMeter, open_pty, open_tcp
from tests.python.alicat.in_a_thread import served

BAUD = 115200
TIMEOUT = 5.0

Serve = Callable[..., str]


@asynccontextmanager
async def on_tcp(bus: Bus) -> AsyncIterator[str]:
    async with open_tcp(bus) as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(unit, ...)`` is the path of a pty with these instruments, in their own thread."""
    with ExitStack() as stack:

        def start(
            *units: MassFlowController, tcp: bool = False, faults: BusFaults | None = None
        ) -> str:
            bus = Bus(units, baudrate=BAUD, faults=faults)
            return served(stack, on_tcp(bus) if tcp else open_pty(bus))

        yield start


def at(path: str) -> SerialSettings:
    return SerialSettings(path, baudrate=BAUD)


def test_instrument_is_opened_polled_and_set(serve: Serve) -> None:
    unit = MassFlowController("A", tau=0)
    path = serve(unit)
    with Alicat.open(path, serial=at(path), timeout=TIMEOUT) as device:
        assert isinstance(device, SyncFlowController)
        assert (device.info.model, device.unit_id) == ("MC-500SCCM-D", "A")
        assert device.poll().values["Gas"] == "N2"
        assert device.setpoint(120, "SCCM").accepted
        assert unit.setpoint == 120
        assert device.settle(hold_duration=0, interval=0).values["Mass_Flow"] == 120
        assert device.gas("Ar").gas is Gas.AR
        assert device.gas_list()[8] == "N2"
        assert device.ramp_rate(50, TimeUnit.SECOND).max_ramp == 50
        assert device.execute(Commands.SETPOINT_SOURCE, c.SetpointSourceRequest()).mode == "S"
        assert device.request(["mass_flow"]).unit_id == "A"
        device.limit_setpoint(high=10)
        with pytest.raises(AlicatValidationError, match="limits"):
            device.setpoint(20)


def test_a_controller_is_opened_as_one_and_a_meter_is_refused(serve: Serve) -> None:
    path = serve(MassFlowController("A"))
    with open_controller(path, serial=at(path), timeout=TIMEOUT) as device:
        assert device.setpoint(1.0).accepted
    path = serve(MassFlowMeter("A"))
    with pytest.raises(AlicatConfigurationError, match="not a controller"):
        open_controller(path, serial=at(path), timeout=TIMEOUT)


def test_no_event_loop_runs_behind_a_call(serve: Serve) -> None:
    path = serve(MassFlowController("A"))
    with open_device(path, serial=at(path), timeout=TIMEOUT) as device:
        before = threading.active_count()
        device.poll()
        assert threading.active_count() == before
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()


def test_stream_is_read_and_stopped(serve: Serve) -> None:
    path = serve(MassFlowController("A"))
    with open_device(path, serial=at(path), timeout=TIMEOUT) as device:
        stream = device.stream(rate_hz=100)
        with pytest.raises(AlicatValidationError, match="within its context"):
            next(stream)
        with stream:
            readings = [reading for reading, _ in zip(stream, range(3), strict=False)]
        assert [reading.unit_id for reading in readings] == ["A"] * 3
        assert stream.skipped_frames == 0
        assert device.poll().unit_id == "A"


def test_late_answer_is_never_taken_for_the_next_one(serve: Serve) -> None:
    unit = MassFlowController("A", tau=0)
    # The eighth answer, behind those of opening, comes after the poll was given up.
    path = serve(unit, faults=BusFaults(late={8: 2.5}))
    with open_device(path, serial=at(path), timeout=1.2) as device:
        assert isinstance(device, SyncFlowController)
        timeouts = answers = 0
        number = 0
        while answers < 10:
            number += 1
            unit.setpoint = float(number)
            try:
                assert device.poll().values["Mass_Flow_Setpt"] == number
            except AlicatTimeoutError:
                timeouts += 1
            else:
                answers += 1
        assert timeouts >= 1
        assert device.client.statistics.resyncs >= 1


@pytest.mark.parametrize("parity", [0, 1])
def test_late_answer_to_an_older_question_leaves_a_timeout_a_timeout(
    serve: Serve, parity: int
) -> None:
    unit = MassFlowController("A", tau=0)
    # While an answer is awaited that comes too late, an older late one comes.
    late = {number: 1.2 if number % 2 == parity else 3.0 for number in range(7, 16)}
    path = serve(unit, faults=BusFaults(late=late))
    with open_device(path, serial=at(path), timeout=0.75) as device:
        timeouts = 0
        for _ in range(4):
            try:
                device.poll()
            except AlicatTimeoutError:
                timeouts += 1
        assert timeouts >= 1


def test_silence_is_a_timeout(serve: Serve) -> None:
    path = serve(MassFlowController("A"))
    with pytest.raises(AlicatTimeoutError, match="unit B"):
        open_device(path, unit_id="B", serial=at(path), timeout=0.05)


def test_impossible_ports_are_refused() -> None:
    with pytest.raises(AlicatConnectionError, match="does not exist"):
        open_device("/dev/ttyNOWHERE")
    with pytest.raises(AlicatConfigurationError, match="twice"):
        open_device("/dev/ttyNOWHERE", serial=SerialSettings("/dev/ttyOTHER"))
    with pytest.raises(TypeError, match="path of a port"):
        open_device(3)  # type: ignore[arg-type]


def test_open_port_and_serial_server_will_do(serve: Serve) -> None:
    path = serve(MassFlowController("A"))
    port = open_serial_port(path)
    with open_device(port, timeout=TIMEOUT) as device:
        assert device.poll().unit_id == "A"
    assert not port.is_open
    with open_device(serve(MassFlowController("A"), tcp=True), timeout=TIMEOUT) as device:
        assert device.poll().unit_id == "A"


def test_safe_state_is_reached(serve: Serve) -> None:
    unit = MassFlowController("A")
    path = serve(unit)
    with Alicat.open(path, serial=at(path), timeout=TIMEOUT, safe_state=SafeState.ZERO) as device:
        assert isinstance(device, SyncFlowController)
        device.setpoint(100)
        assert unit.setpoint == 100
    assert unit.setpoint == 0


def test_threads_share_a_bus(serve: Serve) -> None:
    path = serve(MassFlowController("A"), MassFlowController("B"))
    with open_device(path, unit_id="A", serial=at(path), timeout=TIMEOUT) as first:
        with open_device(first.client, unit_id="B", timeout=TIMEOUT) as second:
            wrong: list[object] = []

            def poll(device: SyncDevice, letter: str) -> None:
                for _ in range(20):
                    try:
                        if device.poll().unit_id != letter:
                            wrong.append(letter)
                    except Exception as error:
                        wrong.append(error)

            threads = [
                threading.Thread(target=poll, args=(device, letter))
                for device, letter in ((first, "A"), (second, "B"), (first, "A"))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert wrong == []
        assert first.poll().unit_id == "A"


def test_manager_polls_several_ports(serve: Serve) -> None:
    one = serve(MassFlowController("A"), MassFlowController("B"))
    other = serve(MassFlowController("A"))
    with SyncAlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
        manager.add("fuel", one, unit_id="A", serial=at(one), timeout=TIMEOUT)
        manager.add("air", one, unit_id="B", serial=at(one), timeout=TIMEOUT)
        manager.add("purge", other, serial=at(other), timeout=TIMEOUT)
        results = manager.poll()
        assert {name: result.ok for name, result in results.items()} == {
            "fuel": True,
            "air": True,
            "purge": True,
        }
        assert list(manager.poll(["air"])) == ["air"]
        assert isinstance(manager.get("air"), SyncFlowController)
        assert manager.request(["mass_flow"], names=["fuel"])["fuel"].ok
        manager.remove("air")
        assert manager.names == ("fuel", "purge")
    assert manager.closed


def test_instruments_are_found_on_several_ports(serve: Serve) -> None:
    one = serve(MassFlowController("A"), MassFlowController("C", serial_number="77"))
    other = serve(MassFlowController("A"))
    seen: list[DiscoveryResult] = []
    threads: set[threading.Thread] = set()

    def note(result: DiscoveryResult) -> None:
        seen.append(result)
        threads.add(threading.current_thread())

    results = find_devices(
        [one, "/dev/ttyNOWHERE", other],
        unit_ids="AC",
        baudrates=[BAUD],
        timeout=2,
        progress=note,
    )
    assert not any(thread.is_alive() for thread in threads)
    found = [
        (result.port, result.unit_id, result.device_info.serial)
        for result in results
        if result.device_info is not None
    ]
    assert found == [(one, "A", "521641"), (one, "C", "77"), (other, "A", "521641")]
    assert [(result.port, result.ok) for result in results[3:]] == [
        ("/dev/ttyNOWHERE", False),
        ("/dev/ttyNOWHERE", False),
        (other, False),
    ]
    assert len(seen) == len(results)


def test_search_of_one_port_starts_no_thread(serve: Serve) -> None:
    path = serve(MassFlowController("B"))
    threads: list[threading.Thread] = []
    found = find_devices(
        [path],
        unit_ids="AB",
        baudrates=[BAUD],
        timeout=2,
        progress=lambda result: threads.append(threading.current_thread()),
    )
    assert [result.unit_id for result in found if result.ok] == ["B"]
    assert threads == [threading.current_thread()] * 2
    assert probe(path, unit_id="b", baudrate=BAUD, timeout=TIMEOUT).ok


def test_impossible_searches_are_refused() -> None:
    with pytest.raises(ValueError, match="max_concurrency"):
        find_devices([], max_concurrency=0)
    assert find_devices([]) == ()
    assert all(port.startswith("/") for port in list_serial_ports())


PAIRS = [
    (Device, SyncDevice),
    (FlowMeter, SyncFlowMeter),
    (PressureMeter, SyncPressureMeter),
    (FlowController, SyncFlowController),
    (PressureController, SyncPressureController),
    (BasisMeter, SyncBasisMeter),
    (BasisController, SyncBasisController),
    (CodaMeter, SyncCodaMeter),
    (CodaController, SyncCodaController),
]


@pytest.mark.parametrize(("asynchronous", "synchronous"), PAIRS)
def test_every_method_has_a_blocking_twin(
    asynchronous: type[Device], synchronous: type[SyncDevice]
) -> None:
    names = [name for name in dir(asynchronous) if not name.startswith("_")]
    missing = [name for name in names if not hasattr(synchronous, name)]
    assert missing == []
    for name in names:
        if inspect.iscoroutinefunction(getattr(asynchronous, name)):
            twin = getattr(synchronous, name)
            assert not inspect.iscoroutinefunction(twin)
            assert twin.__doc__


def test_coroutine_that_waits_for_an_event_loop_is_an_error() -> None:
    async def suspends() -> None:
        await asyncio.Future()

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        with pytest.raises(RuntimeError, match="has suspended"):
            run_without_loop(suspends())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_nested_deadlines_end_the_block_that_they_belong_to() -> None:
    async def main() -> str:
        with BLOCKING.scope(deadline=BLOCKING.now() + 0.01) as outer:
            with BLOCKING.scope(deadline=BLOCKING.now() + 60):
                await BLOCKING.sleep(60)
            raise AssertionError("the outer block has ended")
        assert outer.cancelled_caught
        with BLOCKING.scope(deadline=BLOCKING.now() - 1):
            with BLOCKING.scope(shield=True):
                await BLOCKING.sleep(0)
            return "shielded"
        raise AssertionError("nothing waited in the outer block")

    assert run_without_loop(main()) == "shielded"


def test_capabilities_are_stated_as_elsewhere(serve: Serve) -> None:
    path = serve(MassFlowController("A"))
    with Alicat.open(
        path, serial=at(path), timeout=TIMEOUT, assume_capabilities=Capability.MULTI_VALVE
    ) as device:
        assert isinstance(device, SyncFlowController)
        assert device.exhaust(confirm=True).held
