"""Whether a page waits for a quiet machine before it is measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.measure.quietness import (
    ForeignTime,
    MachineBusy,
    foreign_share,
    wait_until_quiet,
)


@pytest.fixture
def spinning() -> Iterator[None]:
    program = "print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


@pytest.mark.usefixtures("spinning")
def test_other_programs_keep_a_page_from_being_measured() -> None:
    said: list[str] = []
    with pytest.raises(MachineBusy, match=r"other programs use \d+% of a processor.*--busy"):
        wait_until_quiet(said.append, watch=0.3, patience=0.5, limit=0.0)
    assert said and all("waiting for a quiet machine" in each for each in said)


def test_a_machine_within_the_limit_is_quiet() -> None:
    said: list[str] = []
    wait_until_quiet(said.append, watch=0.05, patience=0.0, limit=1e6)
    assert said == []


def test_own_time_is_not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = iter([10.0, 13.0])
    own = iter([1.0, 3.0])
    monkeypatch.setattr("benchmarks.measure.quietness._busy_seconds", lambda: next(busy))
    monkeypatch.setattr("time.process_time", lambda: next(own))
    clock = iter([100.0, 110.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert foreign_share(10.0) == pytest.approx(0.1)


def test_time_of_ended_children_is_not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 110.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    programs = iter([(40, 0, 10), (640, 0, 110)])  # user, nice, system in ticks
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    monkeypatch.setattr(
        "pathlib.Path.read_text", lambda path: "cpu {} {} {} 900 0 5 5 0\n".format(*next(programs))
    )
    own = iter([(0.1, 0.1, 0.0, 0.0, 0.0), (1.1, 0.1, 4.0, 0.5, 10.0)])
    monkeypatch.setattr("os.times", lambda: os.times_result(next(own)))
    assert ForeignTime().share() == pytest.approx((7.0 - 5.5) / 10)
