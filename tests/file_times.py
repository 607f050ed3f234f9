"""A pytest plugin that lists the slowest tests, and fails the run if a test file takes long.

usage: python -m pytest -p tests.file_times -m "not slow" ...

`make check` is to answer in minutes. A file that takes more than ``LONGEST_FILE_S`` either waits
for the clock where it could wait for an event, or its tests belong to the marker ``slow``, which
`make check` leaves out. The limit grows with the load of the machine, which others may cause.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

LONGEST_FILE_S = 20.0
SHOWN = 10


class FileTimes:
    """Sums what pytest reports; under pytest-xdist, the reports of all workers arrive here."""

    def __init__(self) -> None:
        self.tests: Counter[str] = Counter()
        self.files: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid] += report.duration  # type: ignore[assignment]
        self.files[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]

    def limit(self) -> float:
        """Seconds that a file may take: more while more processes than cores want to run."""
        return LONGEST_FILE_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))

    def long_files(self) -> list[tuple[str, float]]:
        limit = self.limit()
        return [(name, seconds) for name, seconds in self.files.most_common() if seconds > limit]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and self.long_files():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"{SHOWN} slowest tests")
        for name, seconds in self.tests.most_common(SHOWN):
            terminalreporter.write_line(f"{seconds:6.1f} s {name}")
        for name, seconds in self.long_files():
            terminalreporter.write_line(
                f"ERROR {name}: its tests take {seconds:.0f} s, more than {self.limit():.0f} s; "
                "wait for an event in place of the clock, or mark them slow"
            )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FileTimes(), "file-times")
