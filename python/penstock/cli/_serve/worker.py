"""The process of a worker.

``python -m penstock.cli._serve.worker SETTINGS HEARTBEAT SOCKETS [MEMORY PLACE]``
"""

from __future__ import annotations

import socket
import sys

from penstock.cli._errors import CommandError
from penstock.cli._serve.logs import set_up_logs
from penstock.cli._serve.metrics import SharedCounters
from penstock.cli._serve.running import run_process
from penstock.cli._serve.worker_process import options_of_worker


def main(settings: str, heartbeat: str, sockets: str, *metrics: str) -> int:
    """Serve on the sockets that the supervisor has passed. Return the exit code."""
    counters = None
    if metrics:
        memory, place = map(int, metrics)
        counters = SharedCounters(memory).place(place)
    try:
        options = options_of_worker(int(settings))
        listening = [socket.socket(fileno=int(number)) for number in sockets.split(",")]
        run_process(options, set_up_logs(options), listening, "", int(heartbeat), counters)
    except CommandError as error:
        print(f"penstock: {error}", file=sys.stderr, flush=True)
        return int(error.code)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
