"""The peers of ``benchmarks/file_io.py``: a module for each, with a class ``Files``."""

from __future__ import annotations

import importlib
from types import ModuleType

from benchmarks.file_peers.peer import AsyncPeer, Peer
from benchmarks.measured_program import Unavailable

MODULES = {
    "penstock": "penstock_files",
    "penstock-threads": "penstock_files",
    "penstock-ring": "penstock_ring",
    "os": "plain_os",
    "pyuring": "pyuring_ring",
    "pyuring-page": "pyuring_page",
    "pyuring-async": "pyuring_async",
    "uringio": "uringio_files",
    "aiofiles": "aiofiles_files",
    "anyio": "anyio_files",
    "caio": "caio_files",
}
# Also measured on these loops; without a name of a loop, a peer runs on asyncio's.
FURTHER_LOOPS = ("uvloop", "penstock")
ON_ANY_LOOP = ("pyuring-async", "aiofiles", "anyio", "caio")
PEERS = [
    *MODULES,
    *(f"{name}@{loop}" for name in ON_ANY_LOOP for loop in FURTHER_LOOPS),
]


def import_peer(name: str) -> ModuleType:
    """The module of the peer of this name.

    Raises:
        Unavailable: if its package is not installed here, or not for this Python.
    """
    try:
        return importlib.import_module(f"benchmarks.file_peers.{MODULES[name.partition('@')[0]]}")
    except (ImportError, AttributeError) as error:
        raise Unavailable(f"{name} is not installed here: {error}") from error


def load_peer(name: str) -> Peer:
    """The peer of this name, which may end with ``@`` and a loop. It lives until the process ends.

    Raises:
        Unavailable: as by `import_peer`.
    """
    peer: Peer = import_peer(name).Files()
    loop = name.partition("@")[2]
    if loop:
        assert isinstance(peer, AsyncPeer)
        peer.loop = loop
    return peer
