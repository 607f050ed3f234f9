"""Which core the measured process runs on, and which one its load runs on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Cores:
    """The two cores of a measurement; ``apart`` is False only where sharing one was asked for."""

    server: int
    client: int

    @property
    def apart(self) -> bool:
        return self.server != self.client


def choose_cores(server: int | None, client: int | None, *, allow_shared: bool) -> Cores:
    """Take the wished cores, or the first two that this process may use.

    Raises:
        ValueError: if a wished core is not allowed to this process, or both would be the same
            although ``allow_shared`` is False.
    """
    allowed = sorted(os.sched_getaffinity(0))
    for wish in (server, client):
        if wish is not None and wish not in allowed:
            raise ValueError(f"core {wish} is not among the cores of this process: {allowed}")
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

    Setting a child's affinity after its start would leave a time, and threads, on the wrong core.
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
