"""The machine and software of a measurement, without which its figures cannot be compared."""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from benchmarks.measure.compilers import compilers_of, output, version_of_compiler
from benchmarks.measure.wakefulness import are_processors_awake

ROOT = Path(__file__).resolve().parent.parent.parent
# What a measurement depends on. Results and documents change with each page that is published.
MEASURED = ("src", "include", "python", "benchmarks", ":!benchmarks/results")


def machine_facts(
    packages: Sequence[str],
    *,
    libraries: Sequence[str] = (),
    further: Mapping[str, str | None] | None = None,
    compiler: str | None = None,
) -> dict[str, object]:
    """Processor, kernel, versions and compilers, load and date, as JSON values.

    Args:
        packages: Python packages.
        libraries: C and C++ libraries by the names of their Debian packages.
        further: other programs and libraries with their versions.
        compiler: the one of the page's programs in C++: servers, floors and loads.
    """
    versions = {name: _version(name) for name in packages}
    versions |= {name: _debian_version(name) for name in libraries}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "system": _system_name(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "compiler": platform.python_compiler(),
        "python_build": python_build(),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "packages": versions | dict(further or {}),
        "package_compilers": {name: compilers_of(name) for name in packages},
        "native_compiler": version_of_compiler(compiler) if compiler is not None else None,
        "load_average": os.getloadavg()[0],
        "processors_awake": are_processors_awake(),
    }


def commit() -> str | None:
    """The commit that is measured, marked if what matters differs from it; None without git."""
    name = output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    changed = output("git", "-C", str(ROOT), "status", "--porcelain", "--", *MEASURED)
    return f"{name} with changes" if name and changed else name


def describe(facts: dict[str, object]) -> str:
    """Two sentences of the facts, for a page: the machine, and what was measured on it."""
    packages, compilers = facts["packages"], facts["package_compilers"]
    assert isinstance(packages, dict)
    assert isinstance(compilers, dict)
    versions = [
        f"{name} {version}" + (f" ({compilers[name]})" if compilers.get(name) else "")
        for name, version in packages.items()
        if version
    ]
    if facts["native_compiler"]:
        versions.append(f"programs in C++ by {facts['native_compiler']}")
    idle = "kept awake" if facts["processors_awake"] else "asleep while idle"
    measured = f"commit {facts['commit']}" if facts["commit"] else "a source tree without git"
    return (
        f"Measured {str(facts['date'])[:10]}, {measured}, on {facts['cpu']} ({facts['cores']}"
        f" cores, {idle}), {facts['system']}, Linux {facts['kernel']}. {facts['python']}"
        f" ({facts['compiler']}, {facts['python_build']})"
        + "".join(f", {version}" for version in versions)
        + "."
    )


def python_build() -> str:
    """Whether this interpreter was built with PGO and LTO, which moves every ratio to asyncio."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    optimised = "with" if "--enable-optimizations" in arguments else "without"
    linked = "with" if "--with-lto" in arguments else "without"
    return f"{optimised} PGO, {linked} LTO"


def _debian_version(package: str) -> str | None:
    return output("dpkg-query", "--show", "--showformat=${Version}", package)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return _source_version(package)


def _source_version(package: str) -> str | None:
    # A source tree on the path has no distribution metadata, only its __version__.
    try:
        version = getattr(__import__(package), "__version__", None)
    except ImportError:
        return None
    return str(version) if version else None


def _cpu_model() -> str:
    text = Path("/proc/cpuinfo").read_text()
    found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
