"""What ``penstock export`` to netCDF costs, beside xarray's own ``to_netcdf`` from pandas.

Each runs in a process of its own over one generated Parquet recording, in turn. The times of xarray
are those of ``to_netcdf`` alone, from a frame that is there; those of Penstock have the reading
too. The memory is the largest of the whole process.

    PYTHONPATH=python .venv/bin/python benchmarks/netcdf_export.py --rows 10000000 --pairs 3
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.query_time import generate

_PENSTOCK = """
import json, sys, time
from penstock.cli import main
began, elapsed = time.process_time(), time.perf_counter()
assert main(["export", sys.argv[1], sys.argv[2], "--overwrite"]) == 0
times = time.process_time() - began, time.perf_counter() - elapsed
"""
_XARRAY = """
import json, sys, time
import pyarrow.parquet, xarray
frame = pyarrow.parquet.read_table(sys.argv[1]).to_pandas().drop(columns=["error", "event"])
frame["device"] = frame["device"].astype(str)
frame["t_utc"] = frame["t_utc"].dt.tz_localize(None)
began, elapsed = time.process_time(), time.perf_counter()
xarray.Dataset.from_dataframe(frame).to_netcdf(sys.argv[2], engine="h5netcdf")
times = time.process_time() - began, time.perf_counter() - elapsed
"""
# Not ru_maxrss, which begins with what the parent had when it forked.
_REPORT = """
[most] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(json.dumps([*times, int(most) / 1024]), file=sys.stderr)
"""


def main() -> int:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the recording (10 M)")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of runs (3)")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float, float]]] = {"penstock": [], "xarray": []}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "run.parquet")
        generate(source, options.rows)
        for number in range(options.pairs):
            order = ["penstock", "xarray"]
            for name in order if number % 2 else reversed(order):
                program = (_PENSTOCK if name == "penstock" else _XARRAY) + _REPORT
                found[name].append(_run(program, source, Path(folder, "out.nc")))
    for name, runs in found.items():
        cpu, elapsed, most = (statistics.median(values) for values in zip(*runs, strict=True))
        print(f"{name}: {elapsed:.2f} s, {cpu:.2f} s CPU, {most:.0f} MB, {options.rows} rows")
    return 0


def _run(program: str, source: Path, out: Path) -> tuple[float, float, float]:
    """CPU seconds, elapsed seconds, and the most memory in MB."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", program, str(source), str(out)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("[")]
    cpu, elapsed, most = json.loads(lines[-1])
    return float(cpu), float(elapsed), float(most)


if __name__ == "__main__":
    raise SystemExit(main())
