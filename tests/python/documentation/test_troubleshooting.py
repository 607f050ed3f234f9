"""docs/troubleshooting.md quotes messages of the sources; the program of docs/limits.md runs."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.python.conftest import CORE_MISSING

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^\| `([^`]+)` \|", PAGE.partition("## By error message")[2], re.M)


@cache
def sources() -> str:
    """Every source, with string literals of several lines joined as the compiler does."""
    files = [
        path
        for folder in ("python/penstock", "python/ext", "python/uring_ext", "src", "cmake")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".cpp", ".hpp", ".cmake", ".in")
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return re.sub(r'"\s*\n\s*f?"', "", text)


def test_the_page_has_messages() -> None:
    assert len(MESSAGES) >= 15


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_occurs_in_the_sources(message: str) -> None:
    assert message in sources()


@pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built (run 'make build')")
def test_the_program_of_the_limits_page_says_which_engine_there_is() -> None:
    page = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "python")},
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith(("ring - ", "threads - "))
