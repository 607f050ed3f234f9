"""The core of the measured process and the core of its load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WORKER_CORES = Path("/sys/devices/virtual/workqueue/cpumask")


@dataclass(frozen=True)
class Cores:
    """The two cores of a measurement; ``apart`` is False only if they may be the same."""

    server: int
    client: int

    @property
    def apart(self) -> bool:
        return self.server != self.client


def choose_cores(server: int | None, client: int | None, *, allow_shared: bool) -> Cores:
    """Take the requested cores, or the first two that this process may use.

    Raises:
        ValueError: if this process may not use a requested core, or both would be the same
            although ``allow_shared`` is False.
    """
    allowed = sorted(os.sched_getaffinity(0))
    for core in (server, client):
        if core is not None and core not in allowed:
            raise ValueError(f"core {core} is not among the cores of this process: {allowed}")
    if server is None:
        server = next((core for core in allowed if core != client), allowed[0])
    if client is None:
        client = next((core for core in allowed if core != server), allowed[0])
    if server == client and not allow_shared:
        raise ValueError(
            f"server and client would share core {server}, which measures the scheduler;"
            " give them two cores, or accept that with --shared-core"
        )
    return Cores(server, client)


@contextmanager
def children_on(core: int | None) -> Iterator[None]:
    """Start children on ``core``: they inherit the affinity, their later threads included.

    With None they may run on all cores that this process may use.

    If the affinity were set after the start, the child and its threads would begin on the wrong
    core.
    """
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def kernel_workers_on(core: int) -> Iterator[bool]:
    """Keep the kernel's unbound workers on ``core`` in the block; yields whether that worked.

    Such a worker moves the bytes from one end of a pseudo-terminal to the other. Unpinned, it runs
    on either core, and the same byte takes 7 µs or 20. Needs root
    (Documentation/core-api/workqueue.rst); without it the workers stay where they are.
    """
    try:
        before = WORKER_CORES.read_text()
        WORKER_CORES.write_text(f"{1 << core % 32:x}" + ",00000000" * (core // 32))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        WORKER_CORES.write_text(before)
