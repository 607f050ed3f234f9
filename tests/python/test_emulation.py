"""The list of tests that emulation cannot run names tests, and the sum of its results is right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulated import CANNOT

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "scripts/packaging/emulated_results.py"

PYTHON = """<testsuites><testsuite>
<testcase name="test_a[1]"/><testcase name="test_b"/>
<testcase name="test_c[1]"><skipped message="emulation: no ring"/></testcase>
<testcase name="test_c[2]"><skipped message="emulation: no ring"/></testcase>
<testcase name="test_d"><skipped message="needs Python 3.12"/></testcase>
</testsuite></testsuites>"""
CPP = """<testsuite><testcase name="X.Runs"/>
<testcase name="X.Skips&lt;uring&gt;"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>x.cpp:1: Skipped
io_uring is refused here
</system-out></testcase>{}</testsuite>"""
FAILED = '<testcase name="X.Fails"><failure message=""/></testcase>'


@pytest.mark.parametrize("pattern", [pattern for found in CANNOT.values() for pattern in found])
def test_a_pattern_names_a_test(pattern: str) -> None:
    file, _, name = pattern.partition("::")
    source = (ROOT / "tests/python" / file).read_text()
    beginning = re.escape(re.split(r"[*?]", name)[0])
    assert re.search(rf"^ *(async )?def {beginning}", source, re.M)


def sum_up(folder: Path, failed: str) -> tuple[subprocess.CompletedProcess[str], str]:
    (folder / "cpp.xml").write_text(CPP.format(failed))
    (folder / "serial.xml").write_text(PYTHON)
    page = folder / "page.md"
    command = [sys.executable, "-I", str(PROGRAM), str(folder), str(page), "QEMU 11"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, page.read_text()


def test_counts_and_reasons_are_on_the_page(tmp_path: Path) -> None:
    done, page = sum_up(tmp_path, "")
    assert (done.returncode, done.stderr) == (0, "")
    assert "| cpp | 1 | 0 | 1 | 0 |" in page
    assert "| serial | 2 | 0 | 2 | 1 |" in page
    cannot, _, otherwise = page.partition("## Other skipped tests")
    assert "- cpp, 1: io_uring is refused here: `X.Skips`" in cannot
    assert "- serial, 2: no ring: `test_c` (2 times)" in cannot
    assert otherwise.strip() == "- serial, 1: needs Python 3.12: `test_d`"


def test_a_failed_test_fails_the_whole(tmp_path: Path) -> None:
    done, page = sum_up(tmp_path, FAILED)
    assert done.returncode == 1
    assert "failed: X.Fails" in done.stdout
    assert "| cpp | 1 | 1 | 1 | 0 |" in page
