"""The command line of the random programs: how many, from which seed, and what they find."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable


def main(run_program: Callable[[int], str | None], description: str) -> int:
    """Run the programs of consecutive seeds, print their findings; the exit code."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--gc-threshold", type=int, help="objects between garbage collections")
    options = parser.parse_args()
    if options.gc_threshold is not None:
        gc.freeze()
        gc.set_threshold(options.gc_threshold)
    findings = 0
    for seed in range(options.seed, options.seed + options.programs):
        finding = run_program(seed)
        if finding is not None:
            findings += 1
            print(finding, flush=True)
    print(f"{options.programs} programs from seed {options.seed}: {findings} findings")
    return 1 if findings else 0
