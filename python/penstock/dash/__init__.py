"""A live web page of a recording or of instruments: charts, alarms, events, setpoints.

::

    board = Board("furnace")
    dashboard = Dashboard(board)
    async with (
        serving(dashboard, listening_socket("127.0.0.1", 8736)),
        record(manager, rate_hz=20) as recording,
    ):
        await pipe(recording, CsvSink("run.csv"), BoardSink(board), flush_interval=0.2)

Needs ``penstock[dash]`` and a loop of asyncio, such as Penstock's. Everything belongs to one event
loop. ``penstock dash`` is the same as a command.
"""

from __future__ import annotations

from penstock._public_names import claim as _claim
from penstock.dash._access import ControlToken
from penstock.dash._alarms import Limits
from penstock.dash._application import Dashboard
from penstock.dash._board import Board
from penstock.dash._board_sink import BoardSink
from penstock.dash._charts import ChartPlan
from penstock.dash._controls import AlarmControls, AlicatControls, ControlError, Controls
from penstock.dash._serving import listening_socket, serving
from penstock.dash._stored import follow

__all__ = [
    "AlarmControls",
    "AlicatControls",
    "Board",
    "BoardSink",
    "ChartPlan",
    "ControlError",
    "ControlToken",
    "Controls",
    "Dashboard",
    "Limits",
    "follow",
    "listening_socket",
    "serving",
]

_claim(globals())
