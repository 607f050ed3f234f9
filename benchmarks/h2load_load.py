#!/usr/bin/env python3
"""h2load as a load of the asgi page: ``h2load_load.py --port PORT --length BYTES ...``.

Ten streams at once on each connection, with prior knowledge of HTTP/2, without TLS. Prints what
``measure/closed_loop.py`` expects. h2load compares no bodies: a status other than 2xx, an error,
and a reply of another length fail the run. The CPU time is that of the run with its warm-up,
divided over the requests of both.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

# Python puts the folder of a script on the path; the package is in the folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measure.cpu_time import cpu_time_ns  # noqa: E402
from benchmarks.measure.memory import process_tree  # noqa: E402

STREAMS = 10
LEAST_SECONDS = 0.3  # a slow server would have answered none of 320 requests in a short turn


def main() -> int:
    """Run h2load once and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", required=True)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--server-pid", type=int, default=os.getpid())
    parser.add_argument("--length", type=int, required=True, help="bytes of each body")
    parser.add_argument("--warmup")
    options = parser.parse_args()
    tree = process_tree(options.server_pid)
    command = ["h2load", "-t1", f"-c{options.connections}", f"-m{STREAMS}"]
    if options.requests:
        command += [f"-n{max(options.requests, options.connections * STREAMS)}"]
    else:
        seconds = max(LEAST_SECONDS, options.seconds)
        command += [f"-D{round(seconds * 1000)}ms", "--warm-up-time=0"]
    command += [f"http://127.0.0.1:{options.port}/"]
    before, own_before = sum(map(cpu_time_ns, tree)), os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after, own_after = sum(map(cpu_time_ns, tree)), os.times()
    found = understand(done.stdout)
    if done.returncode != 0 or found is None:
        last = (done.stderr or done.stdout).strip().splitlines()
        print(f"h2load: {last[-1] if last else 'it said nothing'}", file=sys.stderr)
        return 1
    requests, seconds, wrong, begun, length = found
    if wrong or requests == 0 or not requests <= length / options.length <= begun:
        print(f"h2load: {wrong} of {requests} replies are wrong, {length} bytes", file=sys.stderr)
        return 1
    own = own_after.children_user - own_before.children_user
    own += own_after.children_system - own_before.children_system
    figures = {
        "requests": requests,
        "seconds": seconds,
        "server_cpu_seconds": (after - before) / 1e9,
        "client_cpu_seconds": own,
    }
    print(json.dumps(figures))
    return 0


def understand(text: str) -> tuple[int, float, int, int, int] | None:
    """What h2load reports: requests, seconds, wrong replies, those that have begun, their bytes.

    When its time is over, some replies have begun that are not complete.
    """
    span = re.search(r"^finished in ([0-9.]+)(ms|s|us)", text, re.M)
    counts = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text)
    statuses = re.search(r"^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", text, re.M)
    data = re.search(r"\((\d+)\) data$", text, re.M)
    if span is None or counts is None or statuses is None or data is None:
        return None
    good, *bad = map(int, counts.groups())
    begun, *others = map(int, statuses.groups())
    seconds = float(span[1]) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[span[2]]
    return good, seconds, sum(bad) + sum(others), begun, int(data[1])


if __name__ == "__main__":
    sys.exit(main())
