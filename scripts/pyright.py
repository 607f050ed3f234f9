"""Asks pyright what mypy is asked, for readers whose editor runs it.

Every program of the documentation and the examples passes pyright's standard checks, and every
public name of the package has a type that all type checkers know without inference.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from documented import ROOT, written

PYRIGHT = Path(sys.executable).with_name("basedpyright")
COMPLETE = re.compile(r"^Type completeness score: 100%$", re.MULTILINE)
COUNTS = re.compile(r"^ +With (?:ambiguous|unknown) type: (\d+)$", re.MULTILINE)
# What packages without type information contain is not guessed; mypy does not guess it either.
SETTINGS = {"typeCheckingMode": "standard", "useLibraryCodeForTypes": False}


def environment() -> dict[str, str]:
    """As in an activated virtual environment: --verifytypes asks the first Python of PATH only."""
    path = f"{PYRIGHT.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "python")}


def programs_pass() -> bool:
    """Whether the programs have no errors; prints those that there are."""
    folder, files = written()
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps(SETTINGS | {"include": files}), encoding="utf-8")
    command = [PYRIGHT, "--project", settings, "--level", "error"]
    return subprocess.run(command, env=environment(), check=False).returncode == 0


def names_are_typed() -> bool:
    """Whether the types of all public names are known; prints pyright's report if they are not."""
    command = [PYRIGHT, "--verifytypes", "penstock", "--ignoreexternal"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    counts = COUNTS.findall(done.stdout)
    # The score is rounded; the counts are not.
    complete = bool(COMPLETE.search(done.stdout)) and bool(counts) and not any(map(int, counts))
    print("public names: all typed" if complete else f"{done.stdout}{done.stderr}", flush=True)
    return complete


if __name__ == "__main__":
    passed = [programs_pass(), names_are_typed()]
    sys.exit(0 if all(passed) else 1)
