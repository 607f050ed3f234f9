"""Checks the types of every Python program in documentation and examples, as a reader's code.

A block of a page that imports something is a program. It is written to build/documented under the
name of its page and line. What a reader need not annotate is not asked for; everything else is as
strict as mypy is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "ARCHITECTURE.md")
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^\s*(import|from) ", re.MULTILINE)
OPTIONS = (
    "--strict",
    "--allow-untyped-defs",
    "--allow-incomplete-defs",
    "--allow-untyped-calls",
    "--check-untyped-defs",
    "--disable-error-code=import-untyped",
)


def programs(root: Path) -> dict[str, str]:
    """Each program of the pages, by a name that tells its page and line."""
    found = {}
    for page in (*(root / name for name in PAGES), *sorted((root / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        stem = re.sub(r"\W", "_", page.relative_to(root).with_suffix("").as_posix())
        for block in BLOCK.finditer(text):
            if IMPORT.search(block[1]):
                line = text.count("\n", 0, block.start(1)) + 1
                found[f"{stem}_line_{line}"] = block[1]
    return found


def written() -> tuple[Path, list[str]]:
    """Write the programs into a new folder; the folder, and the names of all files to check."""
    folder = ROOT / "build/documented"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = programs(ROOT)
    for name, code in found.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    examples = [str(file) for file in sorted((ROOT / "examples").rglob("*.py"))]
    return folder, [*sorted(f"{name}.py" for name in found), *examples]


def main() -> int:
    folder, files = written()
    # Without the project's own settings, which a reader does not have.
    command = [sys.executable, "-m", "mypy", "--config-file=", *OPTIONS]
    done = subprocess.run(
        [*command, *files],
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(ROOT / "python")},
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
