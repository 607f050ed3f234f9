"""The names of the contenders: Penstock, its peers, and the floor that none can beat."""

from __future__ import annotations

import sys

FLOOR = "floor"
# The floor of what Python costs: receive, call a function of Python, send; see call_floor.py.
PYTHON_FLOOR = "floor-python"
OURS = "penstock"
LOOPS = [OURS, "asyncio", "uvloop", "zloop", "rloop"]
LOOPS += ["blazio", "talyn", "veloxloop", "loopmini", "rsloop"]
if sys.version_info >= (3, 14):
    LOOPS.append("zuvloop")  # it exists for no earlier CPython
# aiofastnet's transports on these loops.
FASTNET_LOOPS = [f"aiofastnet@{loop}" for loop in ("asyncio", "uvloop", OURS)]
# Shown, but not compared with Penstock: programs that do less work than the others.
NOT_PEERS = frozenset(
    {
        *("pyuring-page", "floor-os", "shared_queue", "null sink"),
        *("bjoern", "fastwsgi", "fastpysgi-wsgi"),
    }
)
# asyncio's version is Python's.
PACKAGES = [*(name for name in LOOPS if name != "asyncio"), "aiofastnet"]


def is_own(contender: str) -> bool:
    """Whether a contender is Penstock, on any loop and with any engine."""
    return contender == OURS or contender.startswith((f"{OURS}-", f"{OURS}@"))


def is_peer(contender: str) -> bool:
    """Whether Penstock is compared with it: neither the floor nor Penstock on another loop."""
    is_floor = contender == FLOOR or contender.startswith(f"{FLOOR}-")
    return not is_floor and contender not in NOT_PEERS and not is_own(contender)
