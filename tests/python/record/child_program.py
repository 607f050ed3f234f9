"""Programs that need an interpreter of their own: they limit the process, or lack modules."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

__all__ = ["printed_by"]


def printed_by(program: str, *arguments: str) -> str:
    """Run a program to its end, which is one without an error; return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
