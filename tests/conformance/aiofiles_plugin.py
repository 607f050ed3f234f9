"""A pytest plugin for aiofiles' own tests: Penstock's loop, and a report in JSON lines.

``PENSTOCK_CONFORMANCE_REPORT`` names the report's file.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

import penstock


class _Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return penstock.new_event_loop()


@pytest.fixture(scope="session")
def event_loop_policy() -> Any:
    return _Policy()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        with Path(os.environ["PENSTOCK_CONFORMANCE_REPORT"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.outcome, report.longreprtext]) + "\n")
