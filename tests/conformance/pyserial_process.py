"""One process that runs one of pyserial's test files with the library under test as ``serial``.

usage: python -m tests.conformance.pyserial_process LIBRARY PORT FOLDER FILE REPORT SECONDS DONE

LIBRARY is ``penstock`` or ``pyserial``; FOLDER contains pyserial's source distribution. The other
arguments and the report are those of ``cpython_process``.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import unittest
from pathlib import Path

from tests.conformance.cpython_process import Report, cases


def main(
    library: str, port: str, folder: str, file: str, report: str, seconds: str, done: str
) -> None:
    faulthandler.enable()
    if library == "penstock":
        importlib.import_module("penstock.serial.compat").install()
    else:
        sys.path.insert(0, folder)
    sys.path.insert(0, str(Path(folder, "test")))
    module = importlib.import_module(file)
    module.PORT = port  # type: ignore[attr-defined]
    result = Report(report, float(seconds))
    run_before = frozenset(Path(done).read_text(encoding="utf-8").split("\n"))
    loaded = unittest.defaultTestLoader.loadTestsFromModule(module)
    chosen = unittest.TestSuite(case for case in cases(loaded) if case.id() not in run_before)
    chosen.run(result)
    result.finish()
    # Threads that a failed test has left behind must not delay the exit.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
