"""Takes the pictures of the dashboard in docs/images, of each of its states, in Chromium.

Most are of the demo; many devices and a vacuum gauge are boards that are filled here. Prepare the
machine with 'scripts/setup test', then: .venv/bin/python scripts/screenshots.py [NAME...]
"""

from __future__ import annotations

import asyncio
import io
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import penstock  # noqa: E402
from penstock.dash import (  # noqa: E402
    Board,
    ChartPlan,
    Dashboard,
    Limits,
    listening_socket,
    serving,
)
from penstock.record import ColumnBuffer, Field, RecordSchema, SampleBatch  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SHOWN_MS = 50_000
DRAWN_MS = 4000


@dataclass(frozen=True)
class Picture:
    """One picture: of the page that ``source`` serves, after ``acts`` on it."""

    name: str
    source: str
    width: int = 1280
    height: int = 860
    dark: bool = False
    acts: Callable[[Page], None] | None = None
    media: str = "screen"


def open_curves(page: Page) -> None:
    page.get_by_role("button", name="Curves of Pump-down").click()


def open_tile(page: Page) -> None:
    page.locator(".tile").nth(9).click()


def acknowledge(page: Page) -> None:
    page.get_by_role("button", name="Acknowledge").click()


PICTURES = (
    Picture("dash.png", "demo"),
    Picture("dash-dark.png", "demo", dark=True),
    Picture("dash-phone.png", "demo", 390, 844),
    Picture("dash-tablet.png", "demo", 820, 1100),
    Picture("dash-seen.png", "demo", acts=acknowledge),
    Picture("dash-axes.png", "gauge"),
    Picture("dash-axes-phone.png", "gauge", 390, 844, dark=True),
    Picture("dash-curves.png", "gauge", acts=open_curves),
    Picture("dash-print.png", "gauge", 800, 1000, media="print"),
    Picture("dash-tiles.png", "many"),
    Picture("dash-tiles-dark.png", "many", 1920, 1080, dark=True, acts=open_tile),
    Picture("dash-tiles-phone.png", "many", 390, 844),
)


def board_of_gauge() -> Board:
    """A gauge on a chamber that is pumped down, its valve, and a totalizer of 12 digits."""
    chart = ChartPlan(
        "Pump-down", (("gauge", "Pressure"),), (("gauge", "Valve_Drive"),), log=("left",)
    )
    board = Board("chamber", live=False, charts=[chart])
    fields = (Field("Pressure", "float", "mbar"), Field("Valve_Drive", "float", "%"))
    totals = (Field("Total_Volume", "float", "mL"),)
    start = time.time_ns() - 2000 * 10**9
    pressures = [float(f"{0.1 * math.exp(-n / 150) + 1e-7:.2e}") for n in range(2000)]
    valves = [round(50 + 20 * math.sin(n / 160), 2) for n in range(2000)]
    gauge = [
        {"Pressure": pressure, "Valve_Drive": valve}
        for pressure, valve in zip(pressures, valves, strict=True)
    ]
    total = [{"Total_Volume": 123456000.123 + n * 0.5} for n in range(2000)]
    board.add(batch_of("gauge", fields, start, 1.0, gauge))
    board.add(batch_of("totalizer", totals, start, 1.0, total))
    return board


def board_of_many() -> Board:
    """Thirty-two controllers, one of them above its limit."""
    board = Board("fab", live=False, limits={"mfc 06": Limits(None, 140)})
    fields = (Field("Mass_Flow", "float", "SCCM"), Field("Mass_Flow_Setpt", "float", "SCCM"))
    start = time.time_ns() - 120 * 10**9
    chance = random.Random(7)
    for number in range(1, 33):
        rows = []
        for n in range(600):
            wave = (number + 10) * math.sin(n / (20 + number))
            flow = round(100 + wave + chance.gauss(0, 1), 2)
            rows.append({"Mass_Flow": flow, "Mass_Flow_Setpt": 100.0})
        if number == 6:
            rows[-20:] = [{**row, "Mass_Flow": row["Mass_Flow"] + 60} for row in rows[-20:]]
        board.add(batch_of(f"mfc {number:02}", fields, start, 0.2, rows))
    return board


def batch_of(
    device: str,
    fields: tuple[Field, ...],
    start: int,
    period: float,
    rows: list[dict[str, float]],
) -> object:
    buffer = ColumnBuffer(RecordSchema(fields, "{}"))
    for n, values in enumerate(rows):
        t, mono = start + round(n * period * 1e9), round(n * period * 1e9)
        buffer.append_row(device, "A", t, t, mono, mono, values, "", None)
    return SampleBatch.from_buffer(buffer).to_arrow()


@contextmanager
def served(board: Board) -> Iterator[str]:
    """The address of a page of ``board``."""
    listener = listening_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    begun: Future[tuple[asyncio.AbstractEventLoop, anyio.Event]] = Future()

    async def serve() -> None:
        leave = anyio.Event()
        async with serving(Dashboard(board), listener):
            begun.set_result((asyncio.get_running_loop(), leave))
            await leave.wait()

    thread = threading.Thread(target=lambda: penstock.run(serve()))
    thread.start()
    loop, leave = begun.result(30)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join()


@contextmanager
def demo() -> Iterator[str]:
    """The address of the page of a demo that has run for a while."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "penstock.cli", "demo", "--dash", "0", "--no-plot"]
        command += [
            "--duration",
            "300",
            "--rate",
            "5",
            "--out",
            f"{folder}/demo",
            "--limit",
            "argon=:390",
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        )
        try:
            assert process.stdout is not None
            lines = (re.search(r"dashboard: (\S+)", line) for line in process.stdout)
            yield next(found[1] for found in lines if found)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def take(browser: Browser, url: str, picture: Picture, wait: int) -> None:
    page = browser.new_page(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.dark else "light",
    )
    page.goto(url)
    page.wait_for_timeout(wait)
    if picture.acts is not None:
        picture.acts(page)
        page.wait_for_timeout(DRAWN_MS // 2)
    if picture.media == "print":
        page.emulate_media(media="print")
    shot = Image.open(io.BytesIO(page.screenshot()))
    # The page has few colours: a palette is a third of the size.
    shot.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        IMAGES / picture.name, optimize=True
    )
    print(f"wrote {IMAGES / picture.name}")
    page.close()


def main() -> None:
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("Chromium is missing; run scripts/setup test")
    names = sys.argv[1:]
    wanted = [picture for picture in PICTURES if not names or picture.name in names]
    sources: Mapping[str, Callable[[], object]] = {
        "demo": demo,
        "gauge": lambda: served(board_of_gauge()),
        "many": lambda: served(board_of_many()),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        for source, begin in sources.items():
            pictures = [picture for picture in wanted if picture.source == source]
            if not pictures:
                continue
            with begin() as url:  # type: ignore[attr-defined]
                for number, picture in enumerate(pictures):
                    first = source == "demo" and number == 0
                    take(browser, url, picture, SHOWN_MS if first else DRAWN_MS)
        browser.close()


if __name__ == "__main__":
    main()
