"""Who is compared: Penstock, its peers, and the floor that nobody passes."""

from __future__ import annotations

FLOOR = "floor"
OURS = "penstock"
LOOPS = [OURS, "asyncio", "uvloop", "zloop", "rloop"]
# Shown, but nobody that Penstock is measured against: its own other engine, its ring without a
# loop, and what does less work than the others.
BESIDE = frozenset(
    {"penstock-threads", "penstock-ring", "pyuring-page", "floor-os", "shared_queue"}
)
# asyncio's version is Python's.
PACKAGES = [name for name in LOOPS if name != "asyncio"]
