"""Where a result was measured: without these facts its figures cannot be compared."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from benchmarks.measure.wakefulness import are_processors_awake


def machine_facts(packages: Sequence[str]) -> dict[str, object]:
    """Processor, kernel, Python and package versions, load and date, ready for JSON."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "system": _system_name(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "compiler": platform.python_compiler(),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "packages": {name: _version(name) for name in packages},
        "load_average": os.getloadavg()[0],
        "processors_awake": are_processors_awake(),
    }


def describe(facts: dict[str, object]) -> str:
    """One sentence of the facts, for a page."""
    packages = facts["packages"]
    assert isinstance(packages, dict)
    versions = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    idle = "kept awake" if facts["processors_awake"] else "asleep while idle"
    return (
        f"Measured {str(facts['date'])[:10]} on {facts['cpu']} ({facts['cores']} cores, {idle}),"
        f" {facts['system']}, Linux {facts['kernel']}, {facts['python']}"
        + (f", {versions}." if versions else ".")
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return _source_version(package)


def _source_version(package: str) -> str | None:
    # A source tree on the path has no distribution metadata, only its own word.
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
