"""Prints the packages that extras and dependency groups need, from the only list: pyproject.toml.

``requirements.py list NAME...`` prints the requirements of these extras or groups, one a line, for
pip, which knows no groups before its version 25.1.
``requirements.py stamp NAME...`` prints a line "name digest" for each; the digest changes when the
requirements or a pinned version change.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OWN_EXTRAS = re.compile(r"penstock\[([\w,\s-]+)\]")


def requirements(project: dict[str, Any], name: str) -> set[str]:
    """The external packages of an extra or a dependency group, with those that it includes."""
    lists = project["project"]["optional-dependencies"] | project["dependency-groups"]
    if name not in lists:
        raise SystemExit(
            f"pyproject.toml has no extra or dependency group {name!r}; it has "
            f"{', '.join(sorted(lists))}"
        )
    found: set[str] = set()
    for line in lists[name]:
        if isinstance(line, dict):
            found |= requirements(project, line["include-group"])
        elif own := OWN_EXTRAS.fullmatch(line):
            for extra in own[1].split(","):
                found |= requirements(project, extra.strip())
        else:
            found.add(line)
    return found


def main(arguments: list[str]) -> None:
    action, *names = arguments
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    core = set(project["project"]["dependencies"])
    wanted = {name: requirements(project, name) | core for name in names} or {"core": core}
    if action == "list":
        print("\n".join(sorted(set().union(*wanted.values()))))
    elif action == "stamp":
        pins = (ROOT / "constraints.txt").read_text()
        for name, lines in wanted.items():
            digest = hashlib.sha256("\n".join([*sorted(lines), pins]).encode()).hexdigest()
            print(name, digest[:16])
    else:
        raise SystemExit(f"unknown action {action!r}; choose list or stamp")


if __name__ == "__main__":
    main(sys.argv[1:])
