"""All cases, room by room."""

from __future__ import annotations

from tests.conformance.reports import (
    datagrams,
    executors,
    names,
    pipes,
    scheduling,
    servers,
    signals,
    sockets,
    streams,
    subprocesses,
    tls,
    transports,
)
from tests.conformance.reports.case import Case, Room

MODULES = (
    transports,
    pipes,
    subprocesses,
    datagrams,
    tls,
    streams,
    servers,
    signals,
    scheduling,
    sockets,
    names,
    executors,
)
ROOMS: tuple[Room, ...] = tuple(module.ROOM for module in MODULES)
CASES: tuple[Case, ...] = tuple(case for room in ROOMS for case in room.cases)
