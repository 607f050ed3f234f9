"""Opening an instrument by its path until it can be asked, again and again.

python benchmarks/instruments/opening.py --contender penstock@penstock --n 5
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.instruments.far_end import far_end
from benchmarks.instruments.libraries import Line, open_and_close
from benchmarks.instruments.query import add_line_options, ask_raw, open_raw
from benchmarks.measured_program import exit_code
from benchmarks.serial_ports.libraries import run, split
from benchmarks.serial_ports.ptys import other_core

#: What Penstock asks a controller with 10v20 firmware, and the lines that each is answered by.
QUESTIONS = ((b"VE", 1), (b"??M*", 10), (b"??D*", 22), (b"", 1), (b"FPF 5", 1))


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description="Opening an instrument")
    parser.add_argument("--contender", required=True)
    parser.add_argument("--n", type=int, default=5)
    add_line_options(parser)
    options = parser.parse_args()

    def measured(port: str) -> list[float]:
        line = Line(port, options.unit, options.firmware, options.baud)
        if options.contender == "floor":
            return [_ask_all(line) for _ in range(options.n + 1)][1:]
        library, loop = split(options.contender)

        async def program() -> list[float]:
            times = []
            for _ in range(options.n + 1):
                begin = time.perf_counter()
                close = await open_and_close(library, line)
                times.append((time.perf_counter() - begin) * 1e3)
                await close()
            return times[1:]  # the first one imports

        found: Any = run(loop, program)
        return list(found)

    if options.port:
        print(json.dumps(measured(options.port)))
        return
    with far_end(1, other_core(), unit_id=options.unit) as there:
        print(json.dumps(measured(there.paths[0])))


def _ask_all(line: Line) -> float:
    begin = time.perf_counter()
    with open_raw(line) as descriptor:
        for command, lines in QUESTIONS:
            ask_raw(descriptor, line.unit_id.encode() + command + b"\r", lines)
    return (time.perf_counter() - begin) * 1e3


if __name__ == "__main__":
    sys.exit(exit_code(main))
