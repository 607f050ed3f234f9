"""ARCHITECTURE.md and CONTRIBUTING.md match the tree: paths exist, and the map is complete."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()

# Named on the page as the location of planned parts.
PLANNED: set[str] = set()
# The map need not list folders below these: they mirror the folders that they test, or have another
# project's folder names.
MIRRORS = ("tests/cpp", "tests/python", "tests/conformance")

PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+)/?`")
# What only a run writes.
WRITTEN = ("build/", "tests/results/")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted(
    set(PATH.findall(PAGE))
    | {path for path in PATH.findall(CONTRIBUTING) if not path.startswith(WRITTEN)}
)


def folders() -> set[str]:
    """Return the folders of the tree that hold files under version control."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    # A file that is deleted but not yet committed is still listed.
    files = [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]
    return {str(file.parent) for file in files} - {"."}


@pytest.mark.parametrize("path", PATHS)
def test_path_named_by_a_page_exists(path: str) -> None:
    assert (ROOT / path).exists() or path in PLANNED


def test_map_lists_every_folder() -> None:
    mapped = set(
        re.findall(r"`([\w./-]+)`", PAGE.partition("## Folders")[2].partition("## Five")[0])
    )
    missing = {
        folder
        for folder in folders()
        if folder not in mapped
        and not folder.startswith(".")
        and not any(folder == mirror or folder.startswith(f"{mirror}/") for mirror in MIRRORS)
    }
    assert sorted(missing) == []


def test_page_names_files_by_full_path() -> None:
    bare = re.findall(r"`[\w-]+\.(?:py|pyi|hpp|cpp|sh|cmake)`", PAGE)
    assert sorted(set(bare)) == ["`run.py`"]  # a command


WAYS = re.findall(
    r"^\*\*(.+?)\.\*\* (.+?)(?=\n\n)",
    PAGE.partition("## Five")[2].partition("\n## ")[0],
    re.M | re.S,
)


@pytest.mark.parametrize(("way", "text"), WAYS, ids=[way for way, _ in WAYS])
def test_call_path_names_existing_functions(way: str, text: str) -> None:
    quoted = re.findall(r"`([^`]+)`", text)
    sources = ""
    for path in (ROOT / name for name in quoted if "/" in name):
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        sources += "".join(
            file.read_text() for file in files if file.suffix in (".py", ".cpp", ".hpp")
        )
    names = {name.rpartition("::")[2] for name in quoted if "/" not in name}
    assert sorted(name for name in names if name not in sources) == []
