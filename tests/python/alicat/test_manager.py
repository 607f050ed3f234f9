from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatManager,
    AlicatProtocolClient,
    AlicatTimeoutError,
    AlicatValidationError,
    ByteStreamTransport,
    Commands,
    ErrorPolicy,
    EventKind,
    FlowController,
    Statistic,
    open_device,
)
from penstock.alicat.commands import SetpointRequest
from penstock.record import (
    DescribedSource,
    EventSource,
    GroupedPollSource,
    PollSource,
    RatedSource,
    SchemaSource,
)

from .captures import FORMAT_10V20
from .scripted_bus import ScriptedBus, controller, meter

pytestmark = pytest.mark.anyio

TIMEOUT = 0.1


async def two_on_one(manager: AlicatManager) -> ScriptedBus:
    bus = ScriptedBus(controller("A"), controller("B"))
    await manager.add("fuel", bus, unit_id="A", timeout=TIMEOUT)
    await manager.add("air", bus, unit_id="B", timeout=TIMEOUT)
    return bus


async def test_devices_of_one_port_share_it_and_are_asked_in_order() -> None:
    async with AlicatManager() as manager:
        bus = await two_on_one(manager)
        bus.commands.clear()
        results = await manager.poll()
        assert bus.commands == [b"A", b"B"]
        assert list(results) == ["fuel", "air"] == list(manager.names)
        assert manager.poll_groups() == (("fuel", "air"),)
        assert manager.get("fuel").client is manager.get("air").client
        fuel = results["fuel"].value
        assert fuel is not None
        assert fuel.unit_id == "A"


async def test_ports_are_asked_in_parallel() -> None:
    first, second = ScriptedBus(controller()), ScriptedBus(controller())
    async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
        await manager.add("a", first, timeout=30)
        await manager.add("b", second, timeout=30)
        assert manager.poll_groups() == (("a",), ("b",))
        first.hold_next()
        before = len(first.commands), len(second.commands)

        async def release_when_both_were_asked() -> None:
            while len(first.commands) == before[0] or len(second.commands) == before[1]:
                await anyio.lowlevel.checkpoint()
            first.release()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(release_when_both_were_asked)
            with anyio.fail_after(10):
                results = await manager.poll()
        assert all(result.ok for result in results.values())


async def test_failure_is_a_result_with_its_times() -> None:
    async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
        bus = await two_on_one(manager)
        bus.drop_next("A")
        results = await manager.poll()
        failed = results["fuel"]
        assert not failed.ok
        assert failed.value is None
        assert isinstance(failed.error, AlicatTimeoutError)
        assert failed.received_monotonic_ns - failed.requested_monotonic_ns >= TIMEOUT * 0.9e9
        assert failed.requested_at < failed.received_at
        good = results["air"]
        assert good.ok
        assert good.value is not None
        assert good.received_monotonic_ns == good.value.monotonic_ns
        assert good.requested_at == good.value.requested_at


async def test_failures_are_raised_together_after_all_were_asked() -> None:
    async with AlicatManager() as manager:
        bus = await two_on_one(manager)
        bus.commands.clear()
        bus.drop_next("A")
        with pytest.raises(ExceptionGroup) as caught:
            await manager.poll()
        assert caught.group_contains(AlicatTimeoutError)
        assert bus.commands == [b"A", b"B"]


async def test_named_devices_only_are_asked() -> None:
    async with AlicatManager() as manager:
        bus = await two_on_one(manager)
        bus.commands.clear()
        assert list(await manager.poll(["air"])) == ["air"]
        assert bus.commands == [b"B"]
        assert await manager.poll([]) == {}
        with pytest.raises(AlicatValidationError, match="the devices are fuel, air"):
            await manager.poll(["fuel", "water"])
        assert bus.commands == [b"B"]


async def test_schemas_are_known_by_name() -> None:
    async with AlicatManager() as manager:
        await manager.add("m", ScriptedBus(meter()), timeout=TIMEOUT)
        assert [field.name for field in manager.field_schemas()["m"]] == [
            "Abs_Press",
            "Flow_Temp",
            "Volu_Flow",
            "Mass_Flow",
            "Gas",
        ]


async def test_port_is_closed_with_its_last_device() -> None:
    async with AlicatManager() as manager:
        bus = await two_on_one(manager)
        await manager.remove("fuel")
        assert not bus.closed
        assert manager.names == ("air",)
        await manager.remove("air")
        assert bus.closed
        with pytest.raises(AlicatValidationError):
            manager.get("air")


async def test_everything_is_closed_at_the_end() -> None:
    async with AlicatManager() as manager:
        bus = await two_on_one(manager)
    assert bus.closed
    assert manager.closed
    assert manager.names == ()
    with pytest.raises(AlicatValidationError, match="closed"):
        await manager.add("x", bus)


async def test_failed_add_leaves_nothing() -> None:
    bus = ScriptedBus(controller("A"))
    async with AlicatManager() as manager:
        with pytest.raises(AlicatTimeoutError):
            await manager.add("z", bus, unit_id="Z", timeout=0.02)
        assert manager.names == ()
        assert bus.closed


async def test_failed_add_leaves_its_neighbours_alone() -> None:
    async with AlicatManager() as manager:
        bus = await two_on_one(manager)
        with pytest.raises(AlicatTimeoutError):
            await manager.add("z", bus, unit_id="Z", timeout=0.02)
        assert not bus.closed
        assert all(result.ok for result in (await manager.poll()).values())


async def test_taken_names_and_unit_ids_are_refused() -> None:
    async with AlicatManager() as manager:
        bus = await two_on_one(manager)
        with pytest.raises(AlicatValidationError, match="'fuel' is taken"):
            await manager.add("fuel", bus, unit_id="C")
        with pytest.raises(AlicatValidationError, match="held as 'fuel'"):
            await manager.add("again", bus, unit_id="a")


async def test_devices_and_clients_of_others_stay_open() -> None:
    bus, other = ScriptedBus(controller()), ScriptedBus(controller())
    device = await open_device(bus, timeout=TIMEOUT)
    client = AlicatProtocolClient(ByteStreamTransport(other), default_timeout=TIMEOUT)
    async with AlicatManager() as manager:
        await manager.add("device", device)
        await manager.add("client", client, timeout=TIMEOUT)
        assert all(result.ok for result in (await manager.poll()).values())
    assert not bus.closed
    assert not other.closed


async def test_a_command_is_executed_on_each_named_device() -> None:
    async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
        bus = await two_on_one(manager)
        bus.commands.clear()
        results = await manager.execute(
            Commands.SETPOINT, {"air": SetpointRequest(), "fuel": SetpointRequest()}
        )
        assert bus.commands == [b"BLS", b"ALS"]
        assert [name for name, result in results.items() if result.ok] == ["air", "fuel"]
        with pytest.raises(AlicatValidationError, match="no device is named 'oxygen'"):
            await manager.execute(Commands.SETPOINT, {"oxygen": SetpointRequest()})


async def test_statistics_are_measured_and_a_failure_stands_in_its_place() -> None:
    async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
        bus = await two_on_one(manager)
        bus.units[b"A"].replies[b"DV*"] = b"+014.62"
        bus.units[b"B"].replies[b"DV*"] = b"?"
        results = await manager.request(["abs_press"])
        assert results["fuel"].value is not None
        assert results["fuel"].value.values == {Statistic.ABS_PRESS: 14.62}
        assert isinstance(results["air"].error, AlicatCommandRejectedError)
    async with AlicatManager() as manager:
        bus = await two_on_one(manager)
        with pytest.raises(ExceptionGroup, match="failed to carry out a command"):
            await manager.request(["abs_press"], names=["fuel"])


async def test_events_come_with_the_name_of_their_device() -> None:
    async with AlicatManager() as manager:
        await two_on_one(manager)
        seen: list[tuple[str, EventKind]] = []
        end = manager.subscribe(lambda name, event: seen.append((name, event.kind)))
        air = manager.get("air")
        assert isinstance(air, FlowController)
        await air.setpoint(10)
        end()
        await air.setpoint(20)
        assert seen == [("air", EventKind.SETPOINT)]


async def test_devices_added_later_are_heard_too() -> None:
    async with AlicatManager() as manager:
        seen: list[str] = []
        manager.subscribe(lambda name, event: seen.append(name))
        await two_on_one(manager)
        air = manager.get("air")
        assert isinstance(air, FlowController)
        await air.setpoint(10)
        assert seen == ["air"]


async def test_events_are_a_stream_with_the_names_of_the_devices() -> None:
    async with AlicatManager() as manager:
        await two_on_one(manager)
        fuel, air = manager.get("fuel"), manager.get("air")
        assert isinstance(fuel, FlowController) and isinstance(air, FlowController)
        async with manager.events() as events:
            await air.setpoint(10)
            await fuel.setpoint(20)
        await air.setpoint(30)  # after the end
        seen = [event async for event in events]
        assert [(event.device, event.kind) for event in seen] == [
            ("air", EventKind.SETPOINT),
            ("fuel", EventKind.SETPOINT),
        ]
        assert seen[0].monotonic_ns <= seen[1].monotonic_ns
        assert events.dropped == 0


async def test_a_reader_that_does_not_keep_up_loses_the_oldest_events() -> None:
    async with AlicatManager() as manager:
        await two_on_one(manager)
        air = manager.get("air")
        assert isinstance(air, FlowController)
        async with manager.events(buffer_size=2) as events:
            for value in (1, 2, 3):
                await air.setpoint(value)
            assert events.dropped == 1
            first = await anext(aiter(events))
        assert "ALS 2.0" in first.message.replace("BLS", "ALS")


async def test_manager_describes_its_devices_and_counts_revisions() -> None:
    async with AlicatManager(source_id="rig 1") as manager:
        assert isinstance(manager, SchemaSource)
        source: PollSource = manager
        assert (source.source_id, manager.revision) == ("rig 1", 0)
        bus = ScriptedBus(controller("A"), meter("B"))
        await manager.add("fuel", bus, unit_id="A", timeout=TIMEOUT, rate_hz=20)
        await manager.add("air", bus, unit_id="B", timeout=TIMEOUT)
        assert manager.rates() == {"fuel": 20}
        facts = manager.device_facts("fuel")
        assert (facts["unit_id"], facts["serial"], facts["firmware"]) == ("A", "521641", "10v20")
        assert (facts["model"], facts["kind"]) == ("MC-500SCCM-D", "flow_controller")
        before = manager.revision
        await manager.remove("air")
        assert manager.revision > before
        before = manager.revision
        bus.units[b"A"].replies[b"??D*"] = [
            row.replace(b"012 02 SCCM", b"007 02 SLPM") for row in FORMAT_10V20
        ]
        await manager.get("fuel").refresh_data_frame_format()
        assert manager.revision > before


@pytest.mark.parametrize("rate_hz", [0, -1, float("nan"), float("inf")])
async def test_impossible_rate_is_refused(rate_hz: float) -> None:
    async with AlicatManager() as manager:
        with pytest.raises(AlicatValidationError, match="polls a second"):
            await manager.add("fuel", ScriptedBus(controller()), rate_hz=rate_hz)


def test_manager_is_every_kind_of_source() -> None:
    manager = AlicatManager()
    for kind in (GroupedPollSource, SchemaSource, DescribedSource, RatedSource, EventSource):
        assert isinstance(manager, kind)
