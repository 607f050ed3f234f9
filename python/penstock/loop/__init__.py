"""The asyncio event loop on Penstock's native core."""

from penstock._public_names import claim as _claim
from penstock.loop._event_loop import Loop
from penstock.loop._running import EventLoopPolicy, install, new_event_loop, run
from penstock.loop._streams import (
    StreamReader,
    StreamWriter,
    open_connection,
    open_unix_connection,
    start_server,
    start_unix_server,
)

__all__ = [
    "EventLoopPolicy",
    "Loop",
    "StreamReader",
    "StreamWriter",
    "install",
    "new_event_loop",
    "open_connection",
    "open_unix_connection",
    "run",
    "start_server",
    "start_unix_server",
]

_claim(globals())
