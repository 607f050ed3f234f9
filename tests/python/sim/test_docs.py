"""The examples of docs/sim.md are programs: each prints what stands under it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = re.compile(
    r"^<!-- example: ([\w-]+) -->\n+```python\n(.*?)^```\n\n```text\n(.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
EXAMPLES = EXAMPLE.findall((ROOT / "docs" / "sim.md").read_text(encoding="utf-8"))


def test_the_page_has_its_examples() -> None:
    assert [name for name, _, _ in EXAMPLES] == ["memory", "faults"]


@pytest.mark.parametrize(("name", "code", "output"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(name: str, code: str, output: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == "", name
    assert done.stdout == output, name
