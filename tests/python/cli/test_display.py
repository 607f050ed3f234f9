"""What a reader sees of a running recording, with and without a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import threading
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from penstock.cli.display import (
    LineDisplay,
    TableDisplay,
    open_display,
    progress_line,
    progress_table,
    show,
)
from penstock.cli.progress import Progress


def table_text(progress: Progress, width: int = 100) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(progress_table(progress))
    return capture.get()


def test_the_table_has_value_unit_setpoint_status_and_counts(
    finished: Callable[..., Progress],
) -> None:
    progress = finished()
    progress.devices["oxygen"].failed(at=2.1, error="no answer")
    progress.devices["oxygen"].errors = 1
    progress.devices["argon"].status = "HLD,MOV"
    progress.devices["argon"].late = 3
    text = table_text(progress)
    header = next(line for line in text.splitlines() if "setpoint" in line)
    for word in ("device", "value", "unit", "status", "samples", "late", "errors"):
        assert word in header
    argon = next(line for line in text.splitlines() if "argon" in line)
    oxygen = next(line for line in text.splitlines() if "oxygen" in line)
    assert [cell.strip() for cell in argon.split("│")[1:-1]] == [
        *["argon", "97.98", "SCCM", "100.00", "HLD,MOV", "40", "3", "0"]
    ]
    assert [cell.strip() for cell in oxygen.split("│")[1:-1]][4:] == ["failing", "40", "0", "1"]


def test_square_brackets_in_a_name_are_text(finished: Callable[..., Progress]) -> None:
    assert "[bold]x[/bold]" in table_text(finished(("[bold]x[/bold]",)))


def test_a_line_tells_every_device_and_the_counts(finished: Callable[..., Progress]) -> None:
    progress = finished()
    progress.devices["oxygen"].failed(at=2.1, error="no answer")
    progress.devices["oxygen"].errors = 1
    assert progress_line(progress) == (
        "   2.0 s  argon 97.98 of 100.00 SCCM, oxygen failing  |  80 samples, 0 late, 1 error"
    )


def test_no_terminal_means_lines() -> None:
    assert isinstance(open_display(io.StringIO()), LineDisplay)


@pytest.fixture
def terminal() -> tuple[int, io.TextIOWrapper]:
    master, slave = pty.openpty()
    return master, os.fdopen(slave, "w", encoding="utf-8")


def test_a_dumb_terminal_means_lines(
    terminal: tuple[int, io.TextIOWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    master, stream = terminal
    monkeypatch.setenv("TERM", "dumb")
    with stream:
        assert isinstance(open_display(stream), LineDisplay)
    os.close(master)


def test_a_terminal_gets_the_table_redrawn_in_place_and_its_cursor_back(
    terminal: tuple[int, io.TextIOWrapper],
    monkeypatch: pytest.MonkeyPatch,
    finished: Callable[..., Progress],
) -> None:
    master, stream = terminal
    monkeypatch.setenv("TERM", "xterm")
    seen = bytearray()

    def read() -> None:
        # The far end of a terminal reports EIO when the near end is closed.
        try:
            while data := os.read(master, 65536):
                seen.extend(data)
        except OSError:
            pass

    reader = threading.Thread(target=read)
    reader.start()
    progress = finished()
    with stream:
        display = open_display(stream)
        assert isinstance(display, TableDisplay)
        display.update(progress)
        progress.devices["argon"].value = 42.0
        display.update(progress)
        display.close()
        display.close()
    reader.join()
    os.close(master)
    text = seen.decode()
    assert "97.98" in text
    assert text.index("97.98") < text.index("42.00")
    assert "\x1b[1A" in text, "the second table is drawn over the first"
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is shown again"


@pytest.mark.anyio
async def test_a_reader_that_has_gone_ends_the_display_not_the_run(
    finished: Callable[..., Progress],
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    stream = os.fdopen(write_end, "w")
    try:
        with anyio.fail_after(10):
            await show(LineDisplay(stream), finished(), lambda: None)
    finally:
        with contextlib.suppress(BrokenPipeError):
            stream.close()


@pytest.mark.anyio
async def test_a_halted_terminal_does_not_hold_up_the_event_loop(
    finished: Callable[..., Progress],
) -> None:
    released = threading.Event()

    class Halted(LineDisplay):
        def update(self, progress: Progress) -> None:
            started.set()
            released.wait()

    started = threading.Event()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show, Halted(io.StringIO()), finished(), lambda: None)
            while not started.is_set():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    finally:
        released.set()
