"""The progress output of a running recording, with and without a terminal."""

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

from penstock.cli._recording.display import (
    KEPT,
    LineDisplay,
    ProgressTable,
    TableDisplay,
    number_text,
    open_display,
    progress_line,
    show,
)
from penstock.cli._recording.progress import Progress


def table_text(progress: Progress, width: int = 120) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(ProgressTable(progress))
    return capture.get()


def test_table_has_value_unit_setpoint_status_and_counts(
    finished: Callable[..., Progress],
) -> None:
    progress = finished()
    progress.devices["oxygen"].failed(at=2.1, error="no answer")
    progress.devices["oxygen"].errors = 1
    progress.devices["argon"].status = "HLD,MOV"
    progress.devices["argon"].late = 3
    progress.remember()
    text = table_text(progress)
    header = next(line for line in text.splitlines() if "setpoint" in line)
    for word in ("device", "value", "unit", "status", "samples", "late", "errors"):
        assert word in header
    argon = next(line for line in text.splitlines() if "argon" in line)
    oxygen = next(line for line in text.splitlines() if "oxygen" in line)
    assert [cell.strip() for cell in argon.split("│")[1:-1]] == [
        *["argon", "97.98", "SCCM", "100.00", "HLD,MOV", "▄", "20.0", "40", "3", "0"]
    ]
    assert [cell.strip() for cell in oxygen.split("│")[1:-1]][4:] == [
        "failing",
        "",
        "20.0",
        "40",
        "0",
        "1",
    ]


@pytest.mark.parametrize(("width", "dropped"), [(200, 0), (100, 1), (80, 3), (60, 4), (44, 6)])
def test_a_narrow_terminal_drops_the_least_important_columns(
    finished: Callable[..., Progress], width: int, dropped: int
) -> None:
    progress = finished()
    progress.devices["oxygen"].errors = 12_345
    progress.remember()
    text = table_text(progress, width)
    lines = [line for line in text.splitlines() if line.strip()]
    assert max(map(len, lines)) <= width
    header = next(line for line in lines if "value" in line)
    words = ["last" if name == "recent" else name for name in KEPT]
    found = [name for name in words if name in header.split()]
    assert found == words[: len(words) - dropped]
    assert "12345" in next(line for line in lines if "oxygen" in line)
    # No column is empty, and the border is on the screen.
    assert header.rstrip()[-1] in "┃│"


def test_a_long_name_gives_way_to_the_columns_that_matter(
    finished: Callable[..., Progress],
) -> None:
    text = table_text(finished(("a device with a name of its own, quite long",)), 60)
    (row,) = [line for line in text.splitlines() if "97.98" in line]
    assert [cell.strip() for cell in row.split("│")[1:-1]][1:] == ["97.98", "SCCM", "0"]
    assert "a device with" in row
    assert len(row) <= 60


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0.00"),
        (1e-7, "1e-07"),
        (1.25e-7, "1.25e-07"),
        (123456789.123, "123456789.123"),
        (100.0, "100.00"),
        (14.705, "14.705"),
        (97.98182736455463, "97.98"),
        (0.0123456789012345, "0.0123457"),
        (-5.5, "-5.50"),
        (2.5e13, "2.5e+13"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_have_the_digits_of_the_instrument(value: float | None, text: str) -> None:
    assert number_text(value) == text


def test_square_brackets_in_a_name_are_printed_as_text(finished: Callable[..., Progress]) -> None:
    assert "[bold]x[/bold]" in table_text(finished(("[bold]x[/bold]",)))


def test_line_shows_every_device_and_the_counts(finished: Callable[..., Progress]) -> None:
    progress = finished()
    progress.devices["oxygen"].failed(at=2.1, error="no answer")
    progress.devices["oxygen"].errors = 1
    assert progress_line(progress) == (
        "   2.0 s  argon 97.98 of 100.00 SCCM, oxygen failing  |  80 samples, 0 late, 1 error"
    )


def test_lines_are_printed_without_a_terminal() -> None:
    assert isinstance(open_display(io.StringIO()), LineDisplay)


@pytest.fixture
def terminal() -> tuple[int, io.TextIOWrapper]:
    master, slave = pty.openpty()
    return master, os.fdopen(slave, "w", encoding="utf-8")


def test_lines_are_printed_on_a_dumb_terminal(
    terminal: tuple[int, io.TextIOWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    master, stream = terminal
    monkeypatch.setenv("TERM", "dumb")
    with stream:
        assert isinstance(open_display(stream), LineDisplay)
    os.close(master)


def test_terminal_table_is_redrawn_in_place_and_the_cursor_restored(
    terminal: tuple[int, io.TextIOWrapper],
    monkeypatch: pytest.MonkeyPatch,
    finished: Callable[..., Progress],
) -> None:
    master, stream = terminal
    monkeypatch.setenv("TERM", "xterm")
    seen = bytearray()

    def read() -> None:
        # Reading the far end of a pty raises EIO when the near end is closed.
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
async def test_closed_output_ends_the_display_but_not_the_run(
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
async def test_halted_terminal_does_not_block_the_event_loop(
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
