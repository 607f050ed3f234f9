"""Takes the pictures of the dashboard in docs/images: runs the demo and opens its page in Chromium.

Prepare the machine with 'scripts/setup test', then: .venv/bin/python scripts/screenshots.py
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SHOWN_MS = 50_000
PICTURES = (
    ("dash.png", "light", 1280, 860),
    ("dash-dark.png", "dark", 1280, 860),
    ("dash-phone.png", "light", 390, 844),
)


def main() -> None:
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("Chromium is missing; run scripts/setup test")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "penstock.cli", "demo", "--dash", "0", "--no-plot"]
        command += ["--duration", "120", "--out", f"{folder}/demo", "--limit", "argon=:390"]
        demo = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        )
        try:
            assert demo.stdout is not None
            url = next(
                found[1] for line in demo.stdout if (found := re.search(r"dashboard: (\S+)", line))
            )
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
                )
                for number, (name, scheme, width, height) in enumerate(PICTURES):
                    page = browser.new_page(
                        viewport={"width": width, "height": height},
                        color_scheme="dark" if scheme == "dark" else "light",
                    )
                    page.goto(url)
                    page.wait_for_timeout(SHOWN_MS if number == 0 else 4000)
                    page.screenshot(path=IMAGES / name)
                    print(f"wrote {IMAGES / name}")
                    page.close()
                browser.close()
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate()


if __name__ == "__main__":
    main()
