"""Whose question is next on a bus."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alicat import AlicatManager, AlicatProtocolClient, ByteStreamTransport, open_device
from penstock.alicat._bus.scheduler import BusScheduler, utilisation

from .scripted_bus import ScriptedBus, controller

A, B, C = b"ABC"


async def served(
    scheduler: BusScheduler, questions: list[tuple[int, bool]]
) -> list[tuple[int, bool]]:
    """The order in which questions are served that all came while the bus was taken."""
    order: list[tuple[int, bool]] = []
    assert scheduler.try_acquire(C)

    async def ask(unit: int, poll: bool) -> None:
        await scheduler.acquire(unit, poll=poll)
        order.append((unit, poll))
        scheduler.release()

    async with anyio.create_task_group() as tasks:
        for number, (unit, poll) in enumerate(questions):
            tasks.start_soon(ask, unit, poll)
            while scheduler.waiting_questions <= number:
                await anyio.lowlevel.checkpoint()
        scheduler.release()
    assert scheduler.try_acquire(A)  # free again
    scheduler.release()
    return order


@pytest.mark.anyio
async def test_commands_go_before_polls_and_in_their_order() -> None:
    questions = [(A, True), (B, True), (B, False), (A, False)]
    assert await served(BusScheduler(), questions) == [
        (B, False),
        (A, False),
        (A, True),
        (B, True),
    ]


@pytest.mark.anyio
async def test_units_are_polled_in_turn() -> None:
    questions = [(A, True), (A, True), (A, True), (B, True)]
    order = await served(BusScheduler(), questions)
    assert [unit for unit, _ in order] == [A, B, A, A]


@pytest.mark.anyio
async def test_commands_do_not_stop_polls() -> None:
    questions = [(A, True), *[(B, False)] * 20]
    order = await served(BusScheduler(), questions)
    assert order.index((A, True)) == 8


@pytest.mark.anyio
async def test_cancelled_question_gives_its_turn_away() -> None:
    scheduler = BusScheduler()
    assert scheduler.try_acquire(A)

    async def never_served() -> None:
        await scheduler.acquire(B)
        raise AssertionError("it was cancelled")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(never_served)
        while not scheduler.waiting_questions:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert scheduler.waiting_questions == 0
    scheduler.release()
    assert scheduler.try_acquire(A)


@pytest.mark.anyio
async def test_question_that_is_cancelled_as_it_is_served_hands_the_bus_on() -> None:
    scheduler = BusScheduler()
    assert scheduler.try_acquire(A)

    async def ask() -> None:
        await scheduler.acquire(B)
        scheduler.release()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        while not scheduler.waiting_questions:
            await anyio.lowlevel.checkpoint()
        scheduler.release()  # B has it now
        tasks.cancel_scope.cancel()
    taken = not scheduler.try_acquire(A)
    assert not taken


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.booleans()), max_size=30))
def test_every_question_is_served_once(questions: list[tuple[int, bool]]) -> None:
    order = anyio.run(served, BusScheduler(), questions)
    assert sorted(order) == sorted(questions)
    for unit in (A, B, C):
        commands = [q for q in order if q == (unit, False)]
        assert len(commands) == questions.count((unit, False))


def test_one_thread_has_the_bus_at_a_time() -> None:
    from penstock.alicat.sync.waiting import BLOCKING, run_without_loop

    scheduler = BusScheduler(BLOCKING)
    inside = 0
    together = threading.Event()
    failures: list[int] = []

    def work() -> None:
        nonlocal inside
        together.wait()
        for _ in range(200):
            if not scheduler.try_acquire(A):
                run_without_loop(scheduler.acquire(A, poll=True))
            inside += 1
            if inside != 1:
                failures.append(inside)
            inside -= 1
            scheduler.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    together.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert scheduler.try_acquire(A)


@pytest.mark.anyio
async def test_setpoint_does_not_wait_behind_polls() -> None:
    bus = ScriptedBus(controller("A"), controller("B"))
    client = AlicatProtocolClient(ByteStreamTransport(bus))
    first = await open_device(client, unit_id="A", timeout=30)
    second = await open_device(client, unit_id="B", timeout=30)
    bus.commands.clear()
    bus.hold_next("A")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.poll)
        while not bus.commands:
            await anyio.lowlevel.checkpoint()
        tasks.start_soon(first.poll)
        tasks.start_soon(second.poll)
        while client.scheduler.waiting_questions < 2:
            await anyio.lowlevel.checkpoint()
        tasks.start_soon(second.setpoint)  # type: ignore[attr-defined]
        while client.scheduler.waiting_questions < 3:
            await anyio.lowlevel.checkpoint()
        bus.release("A")
    assert bus.commands == [b"A", b"BLS", b"B", b"A"]


def test_utilisation_is_the_wire_time_of_the_polls() -> None:
    # 47 characters and the question's 2 take 25.5 ms at 19200 baud, and 3 ms pass before them.
    assert utilisation(19200, [(47, 10)]) == pytest.approx(0.285, abs=0.001)
    assert utilisation(19200, [(47, 10), (47, 30)]) > 1
    assert utilisation(19200, []) == 0


@pytest.mark.anyio
async def test_manager_tells_how_busy_its_ports_are() -> None:
    async with AlicatManager() as manager:
        wire = ByteStreamTransport(ScriptedBus(controller()), label="port", baudrate=19200)
        await manager.add("fast", wire, timeout=1, rate_hz=20)
        await manager.add("unknown", ScriptedBus(controller()), timeout=1)
        assert list(manager.utilisation()) == ["port"]
        assert manager.utilisation()["port"] == pytest.approx(0.57, abs=0.03)
        assert manager.utilisation(100) == manager.utilisation()
