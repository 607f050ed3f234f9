"""The examples of docs/alicat.md run as they stand and print what is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = re.compile(
    r"^<!-- example: (?P<name>[\w-]+) -->\n```python\n(?P<code>.*?)^```\n\n"
    r"```text\n(?P<output>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
EXAMPLES = [
    pytest.param(match["code"], match["output"], id=match["name"])
    for match in EXAMPLE.finditer((ROOT / "docs" / "alicat.md").read_text(encoding="utf-8"))
]


def test_page_has_its_examples() -> None:
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_example_prints_what_the_page_shows(code: str, output: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == output
