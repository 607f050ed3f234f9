"""Runs a program that may crash or hang in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

__all__ = ["run_script"]


def run_script(
    source: str, *, seconds: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with warnings as errors; raise TimeoutExpired after ``seconds``."""
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", textwrap.dedent(source)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
