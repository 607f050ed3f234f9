"""One process that runs one of CPython's test files with the loop under test as asyncio's loop.

usage: cpython_process.py MODULE:FACTORY TEST_FILE REPORT SECONDS [DONE]

The start and end of each test is a JSON line in REPORT. Tests whose ids are in the file DONE are
left out, because an earlier process has run them. A test that takes longer than SECONDS ends the
process; the report then shows which test it was.
"""

from __future__ import annotations

import asyncio
import asyncio.unix_events
import faulthandler
import importlib
import json
import os
import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Classes that do not test the loop, by file.
SAME_LOOP_AGAIN = ("PollEventLoopTests", "SelectEventLoopTests", "KqueueEventLoopTests")
NOT_ABOUT_THE_LOOP: dict[str, tuple[str, ...]] = {
    "test_buffered_proto": ("BaseTestBufferedProtocol",),
    "test_events": (
        *SAME_LOOP_AGAIN,
        "AbstractEventLoopTests",
        "HandleTests",
        "PolicyTests",
        "TestAbstractServer",
        "TimerTests",
    ),
    "test_sendfile": (*SAME_LOOP_AGAIN, "SelectorEventLoopTests"),
    "test_sock_lowlevel": SAME_LOOP_AGAIN,
    "test_sslproto": ("SslProtoHandshakeTests",),
    "test_subprocess": ("SubprocessTransportTests",),
    "test_unix_events": (
        "AbstractChildWatcherTests",
        "BaseChildWatcherTests",
        "ChildWatcher",
        "FastChildWatcherTests",
        "PolicyTests",
        "SafeChildWatcherTests",
        "SelectorEventLoopSignalTests",
        "SelectorEventLoopUnixSockSendfileTests",
        "TestChildWatcher",
        "ThreadedChildWatcherTests",
        "UnixReadPipeTransportTests",
        "UnixWritePipeTransportTests",
    ),
}


def put_in_place_of_asyncios(specification: str) -> None:
    module, _, attribute = specification.partition(":")
    factory: Callable[[], asyncio.AbstractEventLoop] = getattr(
        importlib.import_module(module), attribute
    )

    def make(selector: object = None) -> asyncio.AbstractEventLoop:
        return factory()

    for owner in (asyncio, asyncio.events, asyncio.unix_events):
        for name in ("new_event_loop", "SelectorEventLoop", "EventLoop"):
            if hasattr(owner, name):
                setattr(owner, name, make)
        for name in ("DefaultEventLoopPolicy", "_DefaultEventLoopPolicy"):
            if hasattr(owner, name):
                getattr(owner, name)._loop_factory = staticmethod(make)


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        else:
            yield item


def short_id(test: unittest.TestCase) -> str:
    return test.id().removeprefix("test.test_asyncio.")


class Report(unittest.TestResult):
    def __init__(self, path: str, seconds: float) -> None:
        super().__init__()
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - open until the end
        self._seconds = seconds

    def _write(self, event: str, test: Any, detail: str = "") -> None:
        name = short_id(test) if isinstance(test, unittest.TestCase) else str(test)
        self._file.write(json.dumps([event, name, detail]) + "\n")
        self._file.flush()

    def _fail(self, test: Any, err: Any) -> None:
        text = "".join(self._exc_info_to_string(err, test)).strip()  # type: ignore[attr-defined]
        self._write("failed", test, text)

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._write("started", test)
        faulthandler.dump_traceback_later(self._seconds, exit=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._write("passed", test)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._write("passed", test)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._write("failed", test, "unexpected success")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._write("skipped", test, reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._fail(test, err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._fail(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self._fail(test, err)

    def finish(self) -> None:
        self._write("finished", "")
        self._file.close()


def main(specification: str, file: str, report: str, seconds: str, *done: str) -> None:
    faulthandler.enable()
    put_in_place_of_asyncios(specification)

    from test import support

    support.use_resources = []  # type: ignore[assignment]
    result = Report(report, float(seconds))
    loaded = unittest.defaultTestLoader.loadTestsFromName(f"test.test_asyncio.{file}")
    left_out = NOT_ABOUT_THE_LOOP.get(file, ())
    run_before = frozenset(Path(done[0]).read_text(encoding="utf-8").split("\n")) if done else ()
    chosen = unittest.TestSuite(
        case
        for case in cases(loaded)
        if type(case).__name__ not in left_out and short_id(case) not in run_before
    )
    chosen.run(result)
    result.finish()
    # Threads and tasks that a failed test has left behind must not delay the exit.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
