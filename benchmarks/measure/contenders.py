"""Who is compared: Penstock, its peers, and the floor that nobody passes."""

from __future__ import annotations

FLOOR = "floor"
OURS = "penstock"
LOOPS = [OURS, "asyncio", "uvloop", "zloop", "rloop"]
# asyncio's version is Python's.
PACKAGES = [name for name in LOOPS if name != "asyncio"]
