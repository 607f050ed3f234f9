"""The compilers of what is measured: of the packages' native code, and of the programs in C++.

A wheel does not say what it was compiled with, but its object files do: compilers write their
version into the section ``.comment`` of ELF, and the linker keeps it.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

CLANG = "clang++-19"
SYSTEM = "c++"

# A line of readelf: "  [    1b]  GCC: (Debian 12.2.0-14+deb12u1) 12.2.0".
_COMMENT = re.compile(r"^\s*\[\s*[0-9a-f]+\]\s+(.*)$", re.MULTILINE)
_KNOWN = (
    (re.compile(r"^GCC: \(.*\) (\S+)"), "GCC"),
    (re.compile(r"\bclang version (\S+)"), "clang"),
    (re.compile(r"^rustc version (\S+)"), "rustc"),
    (re.compile(r"^Linker: LLD (\S+)"), "LLD"),
)


def version_of_compiler(program: str) -> str | None:
    """``Debian clang version 19.1.7 (3)``: the first line of its ``--version``, None without it."""
    shown = output(program, "--version")
    return shown.splitlines()[0].strip() if shown else None


def compilers_of(package: str) -> str | None:
    """What a package's extension modules name as their compilers: ``GCC 10.2.1, rustc 1.83.0``.

    None for a package in Python alone, and for files that name none. Several versions of one
    compiler are possible, because the C library's start-up code has one of its own.
    """
    found = {
        name: None for file in _extension_modules(package) for name in _compilers_of_file(file)
    }
    return ", ".join(sorted(found)) or None


def compilers_in(comments: str) -> Iterator[str]:
    """The compilers in what ``readelf --string-dump=.comment`` prints."""
    for comment in _COMMENT.findall(comments):
        for pattern, name in _KNOWN:
            if found := pattern.search(comment):
                yield f"{name} {found.group(1).rstrip(',')}"
                break
        else:
            yield comment.strip()


def output(*command: str) -> str | None:
    """The output of a command without white space around it, None if it fails or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _extension_modules(package: str) -> Sequence[Path]:
    """The modules of the distribution, or of a source tree on the path; no bundled libraries."""
    try:
        files = metadata.distribution(package).files or []
        return [Path(str(file.locate())) for file in files if _is_module(file.name, file.parts)]
    except metadata.PackageNotFoundError:
        spec = find_spec(package)
        folders = spec.submodule_search_locations if spec else None
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        return sorted(file for each in folders or [] for file in Path(each).rglob(f"*{suffix}"))


def _is_module(name: str, parts: Sequence[str]) -> bool:
    return name.endswith(".so") and not any(part.endswith(".libs") for part in parts)


def _compilers_of_file(file: Path) -> Iterator[str]:
    yield from compilers_in(output("readelf", "--string-dump=.comment", str(file)) or "")
