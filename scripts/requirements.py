"""Prints the packages that the project's extras need, from the only list, in pyproject.toml.

``requirements.py list EXTRA...`` prints the requirements, one a line, for pip.
``requirements.py stamp EXTRA...`` prints a line "extra digest" for each extra; the digest changes
when the extra's requirements or a pinned version change.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OWN_EXTRAS = re.compile(r"penstock\[([\w,\s-]+)\]")


def requirements(project: dict[str, object], extra: str) -> set[str]:
    """The external packages of an extra, including those of the extras that it names."""
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    if extra not in extras:
        raise SystemExit(
            f"pyproject.toml has no extra {extra!r}; it has {', '.join(sorted(extras))}"
        )
    found: set[str] = set()
    for line in extras[extra]:
        if own := OWN_EXTRAS.fullmatch(line):
            for name in own[1].split(","):
                found |= requirements(project, name.strip())
        else:
            found.add(line)
    return found


def main(arguments: list[str]) -> None:
    action, *extras = arguments
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = set(project["dependencies"])
    wanted = {extra: requirements(project, extra) | core for extra in extras} or {"core": core}
    if action == "list":
        print("\n".join(sorted(set().union(*wanted.values()))))
    elif action == "stamp":
        pins = (ROOT / "constraints.txt").read_text()
        for extra, lines in wanted.items():
            digest = hashlib.sha256("\n".join([*sorted(lines), pins]).encode()).hexdigest()
            print(extra, digest[:16])
    else:
        raise SystemExit(f"unknown action {action!r}; choose list or stamp")


if __name__ == "__main__":
    main(sys.argv[1:])
