"""The plot of a run: complete files with readable axes, or no file."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._recording.plot import draw_pictures, draw_run, write_pictures
from penstock.cli._recording.progress import Progress


def test_every_device_has_a_panel_with_units_and_both_curves(
    finished: Callable[..., Progress],
) -> None:
    figure = draw_run(finished(("argon", "oxygen", "x$y$")))
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == [
        "argon (unit id A)",
        "oxygen (unit id B)",
        "x$y$ (unit id C)",
    ]
    for axes in panels:
        assert axes.get_ylabel() == "mass flow (SCCM)"
        assert [line.get_label() for line in axes.lines] == ["setpoint", "measured"]
    assert [axes.get_xlabel() for axes in panels] == ["", *["time since start (s)"] * 2]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["setpoint", "measured"]


def test_panels_and_legend_do_not_overlap(finished: Callable[..., Progress]) -> None:
    figure = draw_run(finished(("argon", "oxygen", "helium", "nitrogen")))
    figure.canvas.draw()
    boxes = [axes.get_window_extent() for axes in figure.axes]
    boxes.append(figure.legends[0].get_window_extent())
    for number, box in enumerate(boxes):
        for other in boxes[number + 1 :]:
            assert not box.overlaps(other)


def test_failed_poll_interrupts_the_curve(finished: Callable[..., Progress]) -> None:
    progress = finished(("argon",), samples=3)
    progress.devices["argon"].failed(at=0.15, error="no answer")
    measured = draw_run(progress).axes[0].lines[1].get_ydata()
    assert [value == value for value in measured] == [True, True, True, False]


def test_run_without_an_answer_is_drawn(finished: Callable[..., Progress], tmp_path: Path) -> None:
    write_pictures(draw_pictures(finished(samples=0), [tmp_path / "flow.png"]))
    assert (tmp_path / "flow.png").stat().st_size > 0


def test_svg_and_png_are_complete(finished: Callable[..., Progress], tmp_path: Path) -> None:
    write_pictures(draw_pictures(finished(), [tmp_path / "flow.svg", tmp_path / "flow.png"]))
    assert ElementTree.parse(tmp_path / "flow.svg").getroot().tag.endswith("svg")
    png = (tmp_path / "flow.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flow.png", "flow.svg"]


def test_existing_picture_is_kept_without_overwrite(
    finished: Callable[..., Progress], tmp_path: Path
) -> None:
    path = tmp_path / "flow.png"
    path.write_text("mine")
    with pytest.raises(CommandError, match="already exists; add --overwrite") as caught:
        write_pictures(draw_pictures(finished(), [path]))
    assert caught.value.code is ExitCode.OUTPUT
    assert path.read_text() == "mine"
    write_pictures(draw_pictures(finished(), [path]), overwrite=True)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [path]
