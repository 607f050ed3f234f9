"""What a dashboard costs a recording: 64 channels at 50 Hz, with and without one browser.

    python benchmarks/recording/dashboard.py --seconds 600

Two recorders run one after another, each in a process of its own: one into CSV only, one also on a
dashboard with a browser that shows all channels. The difference of their CPU times is the server's
share of a core. The browser is Chromium on the same machine, on processor time that is left over
(SCHED_IDLE). It draws all charts in software and, run by root, gives itself a higher priority than
the recorder has: ``--browser-competes`` leaves it that. Instead of a browser, ``--client plain``
reads and confirms the same messages. Printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

CHANNELS, RATE_HZ = 64, 50.0
SETTLE_S = 5.0
"""For the browser to load the page, which is not part of the measured time."""


class Reading:
    """A reply with a value and a setpoint."""

    status: frozenset[str] = frozenset()

    def __init__(self, value: float) -> None:
        self.values = {"Mass_Flow": value, "Mass_Flow_Setpt": 50.0}


class Result:
    """A poll that was answered at once."""

    error = None

    def __init__(self, value: float) -> None:
        self.value = Reading(value)
        self.requested_unix_ns = self.received_unix_ns = time.time_ns()
        self.requested_monotonic_ns = self.received_monotonic_ns = time.monotonic_ns()


class Source:
    """64 channels, each on a bus of its own."""

    source_id = "synthetic"
    revision = 0
    names = tuple(f"channel{number:02}" for number in range(CHANNELS))

    def field_schemas(self) -> Mapping[str, Any]:
        import penstock.record as ours

        fields = [
            ours.Field("Mass_Flow", "float", "SCCM"),
            ours.Field("Mass_Flow_Setpt", "float", "SCCM"),
        ]
        return dict.fromkeys(self.names, fields)

    def poll_groups(self) -> Sequence[Sequence[str]]:
        return [(name,) for name in self.names]

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, Any]:
        now = time.monotonic()
        return {name: Result(50 + 20 * math.sin(now)) for name in names or self.names}


async def run_recorder(seconds: float, *, dash: bool, out: Path) -> dict[str, float]:
    """Record, and return the CPU share and the counts of the measured time."""
    import anyio

    import penstock.record as ours
    from penstock.dash import Board, BoardSink, Dashboard, listening_socket, serving

    sinks: list[Any] = [ours.CsvSink(out)]
    begun: dict[str, float] = {}
    ended: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        if dash:
            board = Board("benchmark")
            listener = listening_socket("127.0.0.1", 0)
            print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
            await stack.enter_async_context(serving(Dashboard(board), listener))
            sinks.append(BoardSink(board))
        for sink in sinks:
            await sink.open()
        source: Any = Source()
        recording = await stack.enter_async_context(
            ours.record(
                source,
                rate_hz=RATE_HZ,
                duration=SETTLE_S + seconds,
                alignment=ours.Alignment.SPREAD,
            )
        )

        def now() -> dict[str, float]:
            summary = recording.summary
            return {
                "cpu": time.process_time(),
                "wall": time.monotonic(),
                "late": sum(device.samples_late for device in summary.devices.values()),
                "samples": summary.samples_emitted,
            }

        async def watch() -> None:
            await anyio.sleep(SETTLE_S)
            begun.update(now())
            await anyio.sleep(seconds - 0.5)
            ended.update(now())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await ours.pipe(recording, *sinks, flush_interval=0.2 if dash else 1.0)
    wall = ended["wall"] - begun["wall"]
    return {
        "cpu_percent": 100 * (ended["cpu"] - begun["cpu"]) / wall,
        "late": ended["late"] - begun["late"],
        "samples": ended["samples"] - begun["samples"],
        "seconds": wall,
        "max_drift_ms": recording.summary.max_drift_ms,
    }


def measured(seconds: float, client: str | None, *, competes: bool = False) -> dict[str, Any]:
    """A recorder in a process of its own, beside a client if there is one."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--recorder", f"{folder}/run.csv"]
        command += ["--seconds", str(seconds), *(["--dash"] if client else [])]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        found: dict[str, Any] = {}
        if client == "chromium":
            url = process.stdout.readline().strip()
            if not competes:
                # Inherited. Chromium would undo a mere niceness.
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            found["first_paint_ms"] = show(url, process)
        elif client == "plain":
            follow(process.stdout.readline().strip())
        output, _ = process.communicate()
        return {**json.loads(output.splitlines()[-1]), **found}


def show(url: str, process: subprocess.Popen[str]) -> float:
    """Show the page until the recorder ends; returns when it was first painted."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        # All 64 charts are within sight.
        page = browser.new_page(viewport={"width": 1900, "height": 5000})
        page.goto(url)
        page.wait_for_selector(".tile")
        page.evaluate("() => { window.penstock.tiled = false; window.penstock.arrange(); }")
        page.wait_for_selector(".card canvas")
        paint: float = page.evaluate(
            "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        while process.poll() is None:
            page.wait_for_timeout(200)
        browser.close()
        return paint


def follow(url: str) -> None:
    """Read and confirm the messages for all channels until the server leaves."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    found = re.fullmatch(r"http://(.*)/", url)
    assert found is not None
    with connect(f"ws://{found[1]}/live", compression=None, max_size=None) as socket:
        socket.send('{"type": "hello", "token": null}')
        keys = ("Mass_Flow [SCCM]", "Mass_Flow_Setpt [SCCM]")
        curves = [[name, key] for name in Source.names for key in keys]
        view = {"type": "view", "id": 1, "curves": curves, "width": 400, "span": 60}
        socket.send(json.dumps(view))
        try:
            while True:
                data = socket.recv()
                if isinstance(data, str) and (message := json.loads(data))["type"] == "state":
                    socket.send(json.dumps({"type": "ack", "seq": message["seq"]}))
        except ConnectionClosed:
            return


def main() -> None:
    """Measure both, or be one of the recorders."""
    parser = argparse.ArgumentParser(description="What a dashboard costs a recording.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--client", choices=("chromium", "plain"), default="chromium")
    parser.add_argument(
        "--browser-competes", action="store_true", help="leave Chromium its own priority"
    )
    parser.add_argument("--recorder", help=argparse.SUPPRESS)
    parser.add_argument("--dash", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.recorder is not None:
        import penstock

        out = Path(options.recorder)
        print(json.dumps(penstock.run(run_recorder(options.seconds, dash=options.dash, out=out))))
        return
    without = measured(options.seconds, None)
    with_dash = measured(options.seconds, options.client, competes=options.browser_competes)
    result = {
        "channels": CHANNELS,
        "rate_hz": RATE_HZ,
        "load_average": os.getloadavg()[0],
        "without": without,
        "with": with_dash,
        "browser_competes": options.browser_competes,
        "dashboard_cpu_percent": with_dash["cpu_percent"] - without["cpu_percent"],
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
