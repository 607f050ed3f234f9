"""What is said of slots that have passed, and of a clock that has jumped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio.lowlevel
import pytest

from penstock.record import InMemorySink, SystemClock, pipe, record
from penstock.record._sampling.loop_watch import Gap, LoopWatch
from penstock.record.clock import ClockSteps
from tests.python.record.instruments import Bench, FakeResult, HandClock, reply

pytestmark = pytest.mark.anyio

S = 1_000_000_000


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (
            Gap(0, 18 * S, S // 100, 0),
            "the process was stopped, or held in a system call, for 18.0",
        ),
        (Gap(0, 2 * S, S // 10, 18 * S // 10), "other programs had the processor for 1.8 of 2.0 s"),
        (
            Gap(0, S, 9 * S // 10, S // 20),
            "this program was busy with something else for 0.9 of 1.0",
        ),
    ],
)
def test_a_gap_is_told_by_what_took_most_of_it(gap: Gap, words: str) -> None:
    assert words in str(gap)


class _Times:
    """The three clocks of a thread, moved by hand."""

    def __init__(self) -> None:
        self.now = self.cpu = self.waited = 0
        self.watch = LoopWatch(lambda: self.now, lambda: self.cpu, lambda: self.waited)

    def pass_(self, seconds: float, *, cpu: float = 0.0, waited: float = 0.0) -> None:
        self.now += round(seconds * S)
        self.cpu += round(cpu * S)
        self.waited += round(waited * S)
        self.watch.beat()


def test_a_loop_that_ran_is_no_cause() -> None:
    times = _Times()
    for _ in range(20):
        times.pass_(0.1)
    assert times.watch.cause(0, times.now) is None


def test_a_gap_counts_only_for_the_time_that_it_was_in() -> None:
    times = _Times()
    times.pass_(5.0, cpu=4.9)
    for _ in range(60):
        times.pass_(0.1)
    assert times.watch.cause(5 * S, times.now) is None
    found = times.watch.cause(0, 5 * S)
    assert found == Gap(0, 5 * S, 49 * S // 10, 0)


def test_a_gap_that_has_just_ended_counts() -> None:
    times = _Times()
    times.pass_(0.1)
    times.now += 3 * S
    times.waited += 3 * S
    found = times.watch.cause(times.now - 2 * S, times.now)
    assert found is not None and found.waited_ns == 3 * S


class _Machine(HandClock):
    """A clock whose machine can be suspended."""

    wall = asleep = 0

    def utc_ns(self) -> int:
        return super().utc_ns() + self.wall

    def suspended_ns(self) -> int:
        return self.asleep


@pytest.mark.parametrize(
    ("wall", "asleep", "words"),
    [
        (
            7200 * S,
            7200 * S,
            "+7200.000000 s against the monotonic clock: the machine was suspended",
        ),
        (-3600 * S, 0, "-3600.000000 s against the monotonic clock: it was set"),
        (10 * S, 7 * S, "was suspended for 7.000 s, and the clock was set by +3.000000 s"),
    ],
)
async def test_a_suspended_machine_is_told_from_a_clock_that_was_set(
    wall: int, asleep: int, words: str
) -> None:
    clock = _Machine()

    async def answer(name: str, count: int) -> FakeResult:
        if count == 1:
            clock.wall += wall
            clock.asleep += asleep
        return reply()

    sink = InMemorySink()
    async with record(Bench([["a"]], answer), rate_hz=1, duration=4, clock=clock) as recording:
        summary = await pipe(recording, sink)
    (message,) = (s.message for s in sink.samples if s.event == "clock_step")
    assert message is not None and words in message
    assert summary.clock_steps == 1


def test_the_system_tells_how_long_it_was_suspended() -> None:
    assert SystemClock().suspended_ns() >= 0
    assert ClockSteps(SystemClock()).explain(3 * S).endswith(": it was set")


async def test_sinks_that_take_no_rows_are_the_cause_while_polling_waits_for_them() -> None:
    bench = Bench([["a"]])
    clock = HandClock()
    async with record(bench, rate_hz=10, duration=3, clock=clock, buffer_size=5) as recording:
        while bench.counts.get("a", 0) < 5:
            await anyio.lowlevel.checkpoint()
        for _ in range(100):  # the next slot has come, and waits for room
            await anyio.lowlevel.checkpoint()
        clock.now += S
        sink = InMemorySink()
        await pipe(recording, sink)
    messages = [s.message or "" for s in sink.samples if s.event == "missed_slots"]
    assert messages and "the sinks had not taken the rows" in messages[0]


PROGRAM = """
import anyio, time
from penstock.record import CsvSink, pipe, poll_timed, record

class Thermometer:
    source_id = "t"
    names = ("t",)
    async def poll(self, names=None):
        async def ask():
            return {"T": 21.5}
        return {"t": await poll_timed(ask)}

async def main():
    async with record(Thermometer(), rate_hz=50, duration=6) as recording:
        print("begun", flush=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(WORK)
            await pipe(recording, CsvSink("run.csv"))

async def nothing():
    pass

async def burn():
    await anyio.sleep(1)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        pass

anyio.run(main)
"""


def _missed(folder: Path) -> list[str]:
    lines = (folder / "run.csv").read_text().splitlines()
    return [line for line in lines if "missed_slots" in line]


def _start(folder: Path, work: str) -> subprocess.Popen[str]:
    program = PROGRAM.replace("WORK", work)
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    return process


def test_a_stopped_process_does_not_blame_the_bus(tmp_path: Path) -> None:
    process = _start(tmp_path, "nothing")
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    # Only the length of the stop depends on this, not the result.
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=2)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert any("the process was stopped" in line for line in _missed(tmp_path))


def test_a_loop_that_computes_does_not_blame_the_bus(tmp_path: Path) -> None:
    _start(tmp_path, "burn").communicate(timeout=60)
    lines = _missed(tmp_path)
    # On a machine with other work to do, that may have had more of the processor.
    words = ("this program was busy", "other programs had the processor")
    assert any(each in line for line in lines for each in words), lines
