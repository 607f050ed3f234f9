"""Who does the file work of ``benchmarks/file_io.py``: a module each, with a class ``Files``."""

from __future__ import annotations

import importlib

from benchmarks.contender import Unavailable
from benchmarks.file_peers.peer import Peer

PEERS = {
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


def load_peer(name: str) -> Peer:
    """The peer of this name.

    Raises:
        Unavailable: if its package is not installed here, or not for this Python.
    """
    try:
        module = importlib.import_module(f"benchmarks.file_peers.{PEERS[name]}")
    except (ImportError, AttributeError) as error:
        raise Unavailable(f"{name} is not installed here: {error}") from error
    peer: Peer = module.Files()
    return peer
