"""The benchmarks' native programs: built by one process at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.measure.native import build_native

# Fails if another one is at work in the same folder, as CMake does, if less surely.
CMAKE = """#!/bin/sh
for build; do [ "$previous" = -B ] || [ "$previous" = --build ] && break; previous=$build; done
mkdir "$build/at-work" || exit 1
python3 -c pass
rmdir "$build/at-work"
"""


def test_builds_of_one_folder_do_not_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cmake").write_text(CMAKE)
    (tools / "cmake").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    build = tmp_path / "build"
    with ThreadPoolExecutor(4) as threads:
        built = list(threads.map(build_native, [build] * 4))
    assert built == [build] * 4
    assert not (build / "at-work").exists()
