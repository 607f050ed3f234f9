"""Every function of ``penstock.files`` works where a sandbox denies a system call."""

from __future__ import annotations

import errno
import platform
import subprocess
import sys

import pytest

from tests.python.files import denied_calls
from tests.python.files.conftest import child_environment

# Numbers of the x86-64 table; from 424 on they are the same on every architecture.
CALLS = {
    "statx": [332],
    "preadv2": [327],
    "pwritev2": [328],
    "copy_file_range": [326],
    "renameat2": [316],
    "getrandom": [318],
    "fallocate": [285],
    "splice": [275],
    "io_uring_setup": [425],
    "io_uring_enter": [426],
    "io_uring_register": [427],
    "openat2": [437],
    "all of these": [332, 327, 328, 326, 316, 425, 426, 427, 437],
}
RING = ("io_uring_enter", "io_uring_register", "all of these")

CASES = [*CALLS.items(), *((name + denied_calls.LATE, CALLS[name]) for name in RING)]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
def test_every_function_works_without_a_system_call(error: str) -> None:
    cases = [",".join([name, *map(str, numbers)]) for name, numbers in CASES]
    program = subprocess.run(
        [sys.executable, denied_calls.__file__, str(getattr(errno, error)), *cases],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=180,
    )
    if program.returncode == denied_calls.NOT_TRIED:
        pytest.skip("seccomp is refused here")
    assert (program.returncode, program.stdout) == (0, ""), program.stderr
