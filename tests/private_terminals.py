"""A pytest plugin that gives each worker of pytest-xdist pseudo-terminals of its own.

usage: python -m pytest -n 6 -p tests.private_terminals ...

The kernel gives the number of a closed pseudo-terminal to the next one. A program of one test that
reopens a lost port would open, lock and write to the port of a test in another worker. So each
worker mounts an instance of devpts in a mount namespace of its own
(Documentation/filesystems/devpts.rst). Where that is not permitted, the workers share one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

import pytest

_CLONE_NEWNS = 0x0002_0000
_MS_REC_PRIVATE = 0x4000 | 0x4_0000
_OPTIONS = b"newinstance,ptmxmode=0666,mode=0620,gid=5"


def _call(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def mount_private_terminals() -> None:
    """Mount a devpts instance for this thread and those that it starts. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    _call(libc.unshare(_CLONE_NEWNS))
    _call(libc.mount(None, b"/", None, ctypes.c_ulong(_MS_REC_PRIVATE), None))
    _call(libc.mount(b"devpts", b"/dev/pts", b"devpts", ctypes.c_ulong(0), _OPTIONS))


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        with contextlib.suppress(PermissionError):
            mount_private_terminals()
