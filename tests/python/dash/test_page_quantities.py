"""The page by quantity: chosen curves, two axes, powers of ten, digits, tiles, alarms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from penstock.dash import Board, ChartPlan, Limits
from penstock.record import Field, RecordSchema, Sample, SampleBatch
from tests.python.conftest import CORE_MISSING
from tests.python.dash.page_state import drawn, reached
from tests.python.dash.tables import FLOW, PRESSURE, moment, sample, table, wave

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")

GAUGE = RecordSchema(
    (
        Field("Pressure", "float", "mbar"),
        Field("Valve", "float", "%"),
        Field("Total", "float", "mL"),
    )
)
DARK_PIXELS = """name => {
  const {plot} = window.penstock.cards.get(name);
  const {left, top, width, height} = plot.bbox;
  const data = plot.ctx.getImageData(left, top, width, height).data;
  let count = 0;
  for (let n = 0; n < data.length; n += 4)
    if (data[n + 3] > 100 && data[n + 2] > data[n] + 60) count++;
  return count;
}"""


def vacuum(**options: Any) -> Board:
    """A gauge that pumps down to 1e-7 mbar, its valve, and a totalizer of 12 digits."""
    board = Board("vacuum", live=False, **options)
    rows = []
    for n in range(400):
        at = moment(n)
        pressure = float(f"{1e-7 + 0.1 * math.exp(-n / 20):.2e}") if n < 399 else 1e-7
        values = {
            "Pressure": pressure,
            "Valve": 40.5 + n / 10,
            "Total": round(123456749.223 + n / 10, 3),
        }
        rows.append(
            Sample(
                device="gauge",
                unit_id="A",
                t_utc=at,
                t_mono_ns=n * 10**9,
                requested_at=at,
                received_at=at,
                latency_s=0.004,
                values=values,
                status="",
                error=None,
                event=None,
                message=None,
            )
        )
    board.add(SampleBatch.from_samples(rows, GAUGE).to_arrow())
    return board


def axis(page: Page, name: str, number: int) -> list[str]:
    labels: list[str] = page.evaluate(
        "([name, n]) => window.penstock.cards.get(name).plot.axes[n]._values", [name, number]
    )
    return [label for label in labels if label]


def test_a_laid_out_chart_has_two_axes_one_of_them_logarithmic(serve: Any, page: Page) -> None:
    chart = ChartPlan(
        "Pump-down", left=(("gauge", "Pressure"),), right=(("gauge", "Valve"),), log=("left",)
    )
    page.goto(serve(vacuum(charts=[chart])).url)
    drawn(page, "chart 1", 200)
    expect(page.locator(".card h2").first).to_have_text("Pump-down")
    entries = page.locator(".card").first.locator(".entry")
    expect(entries).to_have_text(["gauge pressure 1.00e-7 mbar", "gauge valve 80.4 %"])
    assert {"1e-7", "0.01", "0.1"} <= set(axis(page, "chart 1", 1))
    assert "60" in axis(page, "chart 1", 2)
    # Without a layout of its own, the device has its card behind the chart.
    expect(page.locator(".card .value")).to_have_text("1.00e-7")


def test_curves_are_chosen_kept_and_written_for_run_toml(serve: Any, page: Page) -> None:
    served = serve(vacuum())
    page.goto(served.url)
    drawn(page, "gauge", 200)
    page.get_by_role("button", name="Curves of gauge").click()
    page.get_by_role("checkbox", name="gauge total", exact=True).check()
    page.get_by_role("checkbox", name="gauge pressure", exact=True).uncheck()
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator(".card .value")).to_have_text("123456789.123")
    drawn(page, "gauge", 200)
    assert all("123456" in label for label in axis(page, "gauge", 1))
    # Nothing of a label is cut off.
    widths = page.evaluate(
        """() => {
          const axis = window.penstock.cards.get("gauge").plot.axes[1];
          const context = document.createElement("canvas").getContext("2d");
          context.font = "11px system-ui";
          return [axis._size, Math.max(...axis._values.map(t => context.measureText(t).width))];
        }"""
    )
    assert widths[0] >= widths[1]
    page.locator("#view summary").click()
    page.get_by_role("button", name="New chart").click()
    page.get_by_label("Title").fill("Both")
    for name in ("gauge pressure", "gauge valve"):
        page.get_by_role("checkbox", name=name, exact=True).check()
    page.get_by_role("checkbox", name="left axis").check()
    page.get_by_role("button", name="Show", exact=True).click()
    drawn(page, "chart 1", 200)
    page.reload()
    drawn(page, "chart 1", 200)
    expect(page.locator(".card .value")).to_have_text("123456789.123")
    page.locator("#view summary").click()
    page.get_by_role("button", name="Layout for run.toml").click()
    assert page.locator("#layout-text").input_value() == (
        '[[dash.chart]]\ntitle = "Both"\nleft = ["gauge.Pressure"]\nright = ["gauge.Valve"]\n'
        'log = ["left"]\n\n[[dash.chart]]\ntitle = "gauge"\nleft = ["gauge.Total"]'
    )
    page.get_by_role("button", name="Close").click()
    page.locator("#view summary").click()
    page.get_by_role("button", name="Charts as proposed").click()
    expect(page.locator(".card")).to_have_count(1)
    expect(page.locator(".card .value")).to_have_text("1.00e-7")


def test_quantities_of_several_devices_share_a_chart(serve: Any, page: Page) -> None:
    board = Board("run", live=False)
    board.add(table([*wave("argon", 50), *wave("oxygen", 80, begin=0.01)]))
    page.goto(serve(board).url)
    drawn(page, "argon", 50)
    page.get_by_role("button", name="Curves of argon").click()
    page.get_by_role("checkbox", name="oxygen abs press").check()
    page.get_by_role("button", name="Show", exact=True).click()
    data = drawn(page, "argon", 130)
    assert len(data) == 7  # times, and lowest and highest values of three curves
    assert sum(value is not None for value in data[1]) == 50
    assert sum(value is not None for value in data[5]) == 80
    assert len(page.evaluate("() => window.penstock.cards.get('argon').plot.axes")) == 3
    query = page.get_by_role("link", name="CSV").get_attribute("href") or ""
    assert "quantity=Abs_Press" in query
    assert (FLOW, PRESSURE) == ("Mass_Flow [SCCM]", "Abs_Press [PSIA]")


def test_isolated_samples_are_drawn(serve: Any, page: Page) -> None:
    board = Board("run", live=False)
    rows = [
        sample("flaky", n, 5.0 + n % 2) if n % 3 == 0 else sample("flaky", n, error="no answer")
        for n in range(60)
    ]
    board.add(table(rows))
    page.goto(serve(board).url)
    drawn(page, "flaky", 40)
    assert page.evaluate(DARK_PIXELS, "flaky") > 60


def test_an_envelope_is_one_filled_shape(serve: Any, page: Page) -> None:
    board = Board("run", live=False)
    board.add(table([sample("valve", n / 100, 100.0 * (n % 2)) for n in range(20_000)]))
    page.goto(serve(board).url)
    drawn(page, "valve", 200)
    area = page.evaluate(
        "() => (({width, height}) => width * height)(window.penstock.cards.get('valve').plot.bbox)"
    )
    # The margins above, below and beside the curve are empty.
    assert page.evaluate(DARK_PIXELS, "valve") > 0.7 * area


def test_an_alarm_moves_nothing_and_is_acknowledged(serve: Any, page: Page) -> None:
    board = Board("live", limits={"argon": Limits(0, 200)})
    board.add(table(wave("argon", 100)))
    served = serve(board)
    page.goto(served.url)
    page.get_by_role("button", name="All", exact=True).click()
    drawn(page, "argon", 50)
    top = "() => document.querySelector('.card .chart').getBoundingClientRect().top"
    before = page.evaluate(top)
    served.do(board.add, table([sample("argon", 10.0, 250.0)]))
    expect(page.get_by_role("alert")).to_contain_text("argon: above limit")
    assert page.evaluate(top) == before
    expect(page.locator("#status-line")).to_have_attribute("data-alarm", "new")
    page.get_by_role("button", name="Details").click()
    expect(page.locator("#alarm-rows")).to_contain_text("250 SCCM is above the limit 200 SCCM")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#status-line")).to_have_attribute("data-alarm", "seen")
    expect(page.locator(".card .mark").first).to_have_class("mark seen")
    assert page.evaluate(top) == before
    # Just inside, it goes on: a limit has a hysteresis.
    served.do(board.add, table([sample("argon", 10.1, 199.5)]))
    expect(page.locator(".card .value")).to_have_text("199.5")
    expect(page.locator("#status-line")).to_have_attribute("data-alarm", "seen")
    served.do(board.add, table([sample("argon", 10.2, 190.0)]))
    expect(page.locator("#status-line")).to_have_attribute("data-alarm", "none")
    assert page.evaluate(top) == before


def test_many_devices_are_tiles_and_a_click_shows_the_chart(serve: Any, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 860})
    board = Board("many", live=False, limits={"mfc 05": Limits(None, 120)})
    board.add(table([row for n in range(32) for row in wave(f"mfc {n:02}", 60)]))
    board.add(table([sample("mfc 05", 20.0, 130.0)]))
    page.goto(serve(board).url)
    expect(page.locator(".tile")).to_have_count(32)
    expect(page.locator(".card")).to_have_count(0)
    expect(page.locator('[data-tile="mfc 05"] .mark')).to_have_text("above limit")
    # All are in sight, without scrolling.
    expect(page.locator(".tile").last).to_be_in_viewport(ratio=1)
    reached(page, "() => window.penstock.points.curves.size >= 32")
    page.locator('[data-tile="mfc 07"]').click()
    drawn(page, "mfc 07", 60)
    expect(page.locator('[data-tile="mfc 07"]')).to_have_attribute("aria-pressed", "true")
    page.locator('[data-tile="mfc 07"]').click()
    expect(page.locator(".card")).to_have_count(0)


def test_notes_stand_in_the_chart(serve: Any, page: Page) -> None:
    board = Board("run", live=False)
    board.add(table([*wave("argon", 100), sample("argon", 2, event="note", message="ann: new")]))
    board.log("note", "for all", t=None)
    page.goto(serve(board).url)
    drawn(page, "argon", 100)
    notes = page.evaluate("() => window.penstock.cards.get('argon').notes().map(n => n.text)")
    assert notes == ["ann: new", "for all"]


def test_the_page_can_be_printed(serve: Any, page: Page) -> None:
    board = Board("run", live=False)
    board.add(table(wave("argon", 100)))
    page.goto(serve(board).url)
    drawn(page, "argon", 100)
    page.emulate_media(media="print")
    for hidden in ("#spans", "#csv", "footer"):
        expect(page.locator(hidden)).to_be_hidden()
    for there in ("#title", ".card canvas", "#events"):
        assert page.locator(there).first.evaluate("e => getComputedStyle(e).display") != "none"
