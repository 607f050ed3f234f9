#!/usr/bin/env python3
"""wrk as a load of the pages: ``wrk_load.py --port PORT --connections N [--seconds S] ...``.

Prints what ``measure/closed_loop.py`` expects. wrk takes whole seconds, and compares no replies: a
reply with another status than 2xx or 3xx, and every error of a socket, fails the run. The CPU time
is that of the server and its children, and includes the set-up of the connections. ``--requests``
and ``--warmup`` are accepted; a number of requests becomes a run of one second.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path

# Python puts the folder of a script on the path; the package is in the folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measure.cpu_time import cpu_time_ns  # noqa: E402
from benchmarks.measure.memory import process_tree  # noqa: E402

REPORT = """
done = function(summary, latency, requests)
  local errors = summary.errors
  io.stderr:write(string.format(
    '{"requests": %d, "microseconds": %d, "failures": %d, "p50": %f, "p99": %f}',
    summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"""


def main() -> int:
    """Run wrk once and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", required=True)
    parser.add_argument("--connections", default="32")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--server-pid", type=int, default=os.getpid())
    for ignored in ("--requests", "--warmup"):
        parser.add_argument(ignored)
    options = parser.parse_args()
    script = Path(__file__).resolve().parent.parent / "build" / "bench" / "wrk_report.lua"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(REPORT)
    command = ["wrk", "-t1", f"-c{options.connections}", f"-d{math.ceil(options.seconds)}s"]
    command += ["-s", str(script), f"http://127.0.0.1:{options.port}/"]
    tree = process_tree(options.server_pid)
    before, own_before = sum(map(cpu_time_ns, tree)), os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after, own_after = sum(map(cpu_time_ns, tree)), os.times()
    if done.returncode != 0 or not done.stderr:
        print(f"wrk: {done.stderr or done.stdout}", file=sys.stderr)
        return 1
    counted = json.loads(done.stderr)
    if counted["failures"]:
        print(f"wrk: {counted['failures']} requests failed: {done.stderr}", file=sys.stderr)
        return 1
    own = own_after.children_user - own_before.children_user
    own += own_after.children_system - own_before.children_system
    figures = {
        "requests": counted["requests"],
        "seconds": counted["microseconds"] / 1e6,
        "server_cpu_seconds": (after - before) / 1e9,
        "client_cpu_seconds": own,
        "latency_us": {"p50": counted["p50"], "p99": counted["p99"]},
    }
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
