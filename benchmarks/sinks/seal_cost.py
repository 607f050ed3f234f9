"""What seals and page checksums cost: rows a second with them, over those without, by sink.

    python benchmarks/sinks/seal_cost.py --rounds 12

Both write the same rows in batches of 64 Ki into new files, in turn, in one process. Prints the
median of the ratios of neighbours as JSON, by the clock and by processor time: 1 costs nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

import anyio
import pyarrow.parquet

from benchmarks.sinks.sink_alone import BATCH_ROWS, Spent, our_samples, write_batches
from penstock.record import CsvSink, JsonlSink, ParquetSink, SampleBatch, SqliteSink

SINKS: dict[str, Any] = {
    "run.csv": CsvSink,
    "run.jsonl": JsonlSink,
    "run.sqlite": SqliteSink,
    "run.parquet": ParquetSink,
}
_Writer = pyarrow.parquet.ParquetWriter


def one_round(name: str, batch: Any, count: int, *, sealed: bool, folder: str | None) -> Spent:
    """Write a file with or without seals and page checksums."""
    with ExitStack() as stack:
        if not sealed:
            # A sink has no option to leave them out.
            plain = partial(_unchecked, _Writer)
            stack.enter_context(mock.patch.object(pyarrow.parquet, "ParquetWriter", plain))
        place = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
        sink = SINKS[name](Path(place, name), seals=sealed)
        return anyio.run(write_batches, sink, batch, count)


def _unchecked(make: Any, *arguments: Any, **options: Any) -> Any:
    return make(*arguments, **{**options, "write_page_checksum": False})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rows", type=int, default=8 * BATCH_ROWS)
    parser.add_argument("--folder", help="where the files are written")
    options = parser.parse_args()
    batch = SampleBatch.from_samples(our_samples(BATCH_ROWS))
    count = max(1, options.rows // BATCH_ROWS)
    found = {}
    for name in SINKS:
        ratios: dict[str, list[float]] = {"rate": [], "cpu": []}
        for number in range(options.rounds + 1):
            spent: dict[bool, Spent] = {}
            for sealed in (True, False) if number % 2 else (False, True):
                spent[sealed] = one_round(name, batch, count, sealed=sealed, folder=options.folder)
            if number:  # the first round imports
                ratios["rate"].append(spent[False].wall / spent[True].wall)
                ratios["cpu"].append(spent[False].cpu / spent[True].cpu)
        found[name] = {
            key: [round(statistics.median(each), 3), round(min(each), 3), round(max(each), 3)]
            for key, each in ratios.items()
        }
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
