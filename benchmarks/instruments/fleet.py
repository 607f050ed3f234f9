"""Many instruments, each on a port of its own, polled at one rate by one process on one core.

    python benchmarks/instruments/fleet.py --contender penstock@penstock --seconds 60

The far end judges which polls were late, so all libraries are judged alike.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.instruments.far_end import far_end
from benchmarks.instruments.libraries import Line, Polled, poll_all
from benchmarks.instruments.slots import judge
from benchmarks.measured_program import exit_code
from benchmarks.serial_ports.libraries import run, split
from benchmarks.serial_ports.ptys import other_core


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description="Many instruments polled at one rate")
    parser.add_argument("--contender", required=True)
    parser.add_argument("--ports", type=int, default=16)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    library, loop = split(options.contender)
    with far_end(options.ports, other_core()) as there:
        lines = [Line(path) for path in there.paths]

        async def program() -> Polled:
            return await poll_all(library, lines, options.rate, options.seconds)

        polled: Polled = run(loop, program)
    verdicts = [judge(polls, options.rate) for polls in there.polled_at]
    slots = sum(verdict.slots for verdict in verdicts)
    result = {
        "readings": polled.readings,
        "late_percent": 100.0 * sum(verdict.late for verdict in verdicts) / slots,
        "cpu_percent": 100.0 * polled.cpu_seconds / options.seconds,
        "cpu_us": polled.cpu_seconds / polled.readings * 1e6,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(exit_code(main))
