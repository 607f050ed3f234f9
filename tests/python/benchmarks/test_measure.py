"""The measurement: clocks, cores, rounds, ratios, system calls, tables."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure.affinity import Cores, children_on, choose_cores, kernel_workers_on
from benchmarks.measure.closed_loop import Sample, in_turns
from benchmarks.measure.cpu_time import cpu_time_ns
from benchmarks.measure.processes import Failed, Unavailable, launch, run, server
from benchmarks.measure.rounds import alternate
from benchmarks.measure.sanity import Impossible, check_requests
from benchmarks.measure.spread import Spread, paired_ratio, spread
from benchmarks.measure.syscalls import calls_between, traced
from benchmarks.measure.wakefulness import QOS_DEVICE, are_processors_awake, processors_awake

CORE = min(os.sched_getaffinity(0))
NEEDS_STRACE = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def test_cpu_time_counts_the_work_of_another_process() -> None:
    code = "import time\nwhile time.process_time() < 0.05: pass\nprint(flush=True)\ninput()"
    with server([sys.executable, "-c", code], CORE) as running:
        used = cpu_time_ns(running.pid)
    assert used >= 50_000_000


def test_cpu_time_of_an_ended_process_is_an_error() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(OSError, match="CPU clock"):
        cpu_time_ns(process.pid)


def test_children_start_on_the_chosen_core_and_the_parent_keeps_its_own() -> None:
    before = os.sched_getaffinity(0)
    shown = run(
        [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"], CORE, timeout=20
    )
    assert shown.strip() == str({CORE})
    with children_on(CORE):
        assert os.sched_getaffinity(0) == {CORE}
    assert os.sched_getaffinity(0) == before


def test_cores_are_two_different_ones_unless_sharing_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4, 6})
    assert choose_cores(None, None, allow_shared=False) == Cores(4, 6)
    assert choose_cores(6, None, allow_shared=False) == Cores(6, 4)
    assert choose_cores(None, 4, allow_shared=False) == Cores(6, 4)
    with pytest.raises(ValueError, match="core 5 is not among"):
        choose_cores(5, None, allow_shared=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4})
    with pytest.raises(ValueError, match="--shared-core"):
        choose_cores(None, None, allow_shared=False)
    assert not choose_cores(None, None, allow_shared=True).apart


@pytest.mark.skipif(
    not os.access(QOS_DEVICE, os.R_OK | os.W_OK), reason=f"{QOS_DEVICE} is not there, or not ours"
)
def test_processors_are_awake_for_as_long_as_they_are_held() -> None:
    before = are_processors_awake()
    with processors_awake() as held:
        assert held
        assert are_processors_awake()
    with processors_awake(wanted=False) as held:
        assert not held
        assert are_processors_awake() == before


def test_where_processors_cannot_be_held_the_measuring_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.measure.wakefulness.QOS_DEVICE", tmp_path / "absent")
    with processors_awake() as held:
        assert not held
        assert not are_processors_awake()


@pytest.mark.parametrize(("core", "mask"), [(0, "1"), (33, "2,00000000")])
def test_the_kernels_workers_are_put_on_a_core_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, core: int, mask: str
) -> None:
    file = tmp_path / "cpumask"
    file.write_text("3\n")
    monkeypatch.setattr("benchmarks.measure.affinity.WORKER_CORES", file)
    with kernel_workers_on(core) as pinned:
        assert pinned
        assert file.read_text() == mask
    assert file.read_text() == "3\n"


def test_where_the_kernels_workers_cannot_be_moved_the_measuring_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.measure.affinity.WORKER_CORES", tmp_path / "no" / "cpumask")
    with kernel_workers_on(CORE) as pinned:
        assert not pinned


@pytest.mark.parametrize("error", [Failed, Impossible])
def test_rounds_alternate_and_one_that_cannot_run_is_out_with_its_reason(
    error: type[Exception],
) -> None:
    order = []

    def measure(name: str) -> int:
        order.append(name)
        if name == "lacking":
            raise Unavailable("no such call")
        if name == "breaking" and len(order) > 3:
            raise error("it fell over")
        return len(order)

    outcomes = alternate(["good", "lacking", "breaking"], 3, measure)
    assert order == ["good", "lacking", "breaking", "good", "breaking", "good"]
    assert outcomes["good"].samples == [1, 4, 6]
    assert outcomes["lacking"].missing == "no such call"
    assert (outcomes["breaking"].samples, outcomes["breaking"].missing) == ([], "it fell over")


def a_sample(requests: int) -> Sample:
    return Sample(requests, 1.0, 0.5, 0.5, 10.0, 20.0)


def test_servers_are_up_together_and_loaded_in_turn() -> None:
    happened: list[str] = []

    class Up:
        def __init__(self, name: str) -> None:
            self.name = name
            self.turns = 0

        def turn(self, options: argparse.Namespace) -> Sample:
            self.turns += 1
            if self.name == "breaks" and self.turns == 2:
                raise Failed("a wrong reply")
            happened.append(self.name)
            return a_sample(len(happened))

    @contextmanager
    def serve(name: str) -> Iterator[Any]:
        if name == "lacks":
            raise Unavailable("no such style")
        happened.append(f"+{name}")
        yield Up(name)
        happened.append(f"-{name}")

    options = argparse.Namespace(rounds=2, turns=2)
    outcomes = in_turns(["a", "lacks", "breaks", "b"], options, serve, lambda line: None)
    first = ["+a", "+breaks", "+b", "a", "breaks", "b", "a", "b", "-b", "-breaks", "-a"]
    assert happened == [*first, "+a", "+b", "a", "b", "a", "b", "-b", "-a"]
    assert [len(outcomes[name].samples) for name in ("a", "lacks", "breaks", "b")] == [4, 0, 0, 4]
    assert outcomes["lacks"].missing == "no such style"
    assert outcomes["breaks"].missing == "a wrong reply"


def test_a_server_that_its_machine_lacks_takes_no_turns() -> None:
    def serve(name: str) -> AbstractContextManager[Any]:
        if name == "lacks":
            raise Unavailable("not installed")
        return nullcontext(Always())

    class Always:
        def turn(self, options: argparse.Namespace) -> Sample:
            return a_sample(1)

    options = argparse.Namespace(rounds=2, turns=1)
    outcomes = in_turns(["lacks", "a"], options, serve, lambda line: None)
    assert outcomes["lacks"].missing == "not installed"
    assert len(outcomes["a"].samples) == 2


def test_the_spread_of_many_rounds_is_their_outer_deciles() -> None:
    assert spread(range(20)) == Spread(9.5, 0, 19)
    assert spread([*range(21)]) == Spread(10, 2, 18)


def test_a_ratio_is_taken_round_by_round() -> None:
    assert paired_ratio([2.0, 20.0, 9.0], [1.0, 10.0, 3.0]) == Spread(2.0, 2.0, 3.0)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        paired_ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="at least one round"):
        spread([])


def test_a_server_reports_a_missing_feature_by_its_exit_code() -> None:
    code = "import sys; print('no such loop', file=sys.stderr); sys.exit({})"
    with (
        pytest.raises(Unavailable, match=r"^no such loop$"),
        server([sys.executable, "-c", code.format(69)], CORE),
    ):
        pass
    with (
        pytest.raises(Failed, match="ended with exit code 3: no such loop"),
        server([sys.executable, "-c", code.format(3)], CORE),
    ):
        pass


def test_a_server_that_dies_under_load_is_reported_instead_of_the_clients_error() -> None:
    code = "import os; print(1, flush=True); os.abort()"
    with (
        pytest.raises(Failed, match="was ended by SIGABRT"),
        server([sys.executable, "-c", code], CORE),
    ):
        raise Failed("connection reset")


def test_a_launch_costs_time_and_one_that_fails_is_unavailable() -> None:
    cost = launch([sys.executable, "-c", "pass"], CORE)
    assert cost.seconds > 0
    assert cost.cpu_seconds > 0
    with pytest.raises(Unavailable, match="No module named 'penstock_nowhere'"):
        launch([sys.executable, "-c", "import penstock_nowhere"], CORE)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"requests": 0}, "nothing was completed"),
        ({"seconds": 0.5}, "asked for"),
        ({"outside_seconds": 0.9}, "the process ran for"),
        ({"requests": 27_000_000}, "faster than can be"),
        ({"cpu": 0.001}, "cheaper than the kernel"),
        ({"cpu": 1.5}, "on 1 processor"),
    ],
)
def test_a_run_that_cannot_have_happened_is_refused(changed: dict[str, float], said: str) -> None:
    possible = {
        "requests": 100_000,
        "seconds": 1.0,
        "asked_seconds": 1.0,
        "outside_seconds": 1.4,
        "cpu": 0.9,
    }
    check_requests(**possible)  # type: ignore[arg-type]
    with pytest.raises(Impossible, match=said):
        check_requests(**(possible | changed))  # type: ignore[arg-type]


def test_a_trace_counts_the_calls_that_begin_in_the_span() -> None:
    log = "\n".join(
        [
            "7 100.000001 epoll_wait(3, <unfinished ...>",
            "8 101.000000 read(0, 0x7f, 10) = 0",
            "7 101.100000 <... epoll_wait resumed>, 1, -1) = 1",
            "7 101.200000 --- SIGCHLD {si_signo=SIGCHLD} ---",
            "7 101.300000 read(0, 0x7f, 10) = 0",
            "7 101.400000 +++ exited with 0 +++",
            "7 102.000000 close(3) = 0",
        ]
    )
    assert calls_between(log, 101.0, 102.0) == {"read": 2}


@NEEDS_STRACE
def test_the_calls_of_a_polling_loop_are_counted(tmp_path: Path) -> None:
    code = "import select\nprint(flush=True)\nwhile not select.select([0], [], [], 0.02)[0]: pass"
    log = tmp_path / "log"
    with server(traced([sys.executable, "-c", code], log), CORE):
        begin = time.time()
        # The end of the span is the trace itself: as soon as it holds some calls of the loop.
        deadline = time.monotonic() + 60
        while log.read_text().count("select") < 5:
            assert time.monotonic() < deadline, "the loop made no calls"
    assert sum(calls_between(log.read_text(), begin, time.time()).values()) >= 3
