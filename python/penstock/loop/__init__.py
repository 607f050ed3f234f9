"""The asyncio event loop on Penstock's native core."""

from penstock.loop.event_loop import Loop
from penstock.loop.running import EventLoopPolicy, install, new_event_loop, run

__all__ = ["EventLoopPolicy", "Loop", "install", "new_event_loop", "run"]
