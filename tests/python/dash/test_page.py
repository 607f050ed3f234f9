"""The page in Chromium: charts, values, control, reconnection, narrow screens, keys."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from penstock.dash import Board, Limits
from tests.python.conftest import CORE_MISSING
from tests.python.dash.page_state import drawn, reached
from tests.python.dash.served_boards import FakeControls
from tests.python.dash.tables import START, sample, table, wave

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")

# Pixels of a chart that are neither empty nor a grid line's grey.
COLOURED = """name => {
  const canvas = document.querySelector(`[data-device="${name}"] canvas`);
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let n = 0; n < data.length; n += 4) {
    if (data[n + 3] > 100 && Math.abs(data[n] - data[n + 2]) > 60) found++;
  }
  return found;
}"""


def recorded() -> Board:
    board = Board("furnace", live=False, limits={"argon": Limits(None, 149)})
    rows = [*wave("argon", 150), *wave("oxygen", 150)]
    rows[70] = sample("argon", 3.5, error="TimeoutError: no answer")
    rows.append(sample("oxygen", 7.5, 123.456, status="HLD,MOV"))
    board.add(table(rows))
    return board


def test_charts_and_tiles_show_the_values_of_the_recording(serve: Any, page: Page) -> None:
    page.goto(serve(recorded()).url)
    t, low, high, _, setpoint = drawn(page, "argon", 150)
    rows = wave("argon", 150)
    values = [row.values["Mass_Flow"] for row in rows]
    values[70] = None
    assert t == pytest.approx([START / 1e9 + n / 20 for n in range(150)], abs=1e-6)
    assert low == high == values
    assert {value for value in setpoint if value is not None} == {100}
    for name in ("argon", "oxygen"):
        assert page.evaluate(COLOURED, name) > 300
    oxygen = page.locator('[data-device="oxygen"]')
    expect(oxygen.locator(".value")).to_have_text("123.456")
    expect(oxygen.locator(".unit")).to_have_text(" SCCM ")
    expect(oxygen.locator(".aim")).to_have_text("setpoint 100")
    expect(oxygen.locator(".mark")).to_have_text(["HLD", "MOV"])
    expect(page.locator('[data-device="argon"] .counts')).to_have_text("150 samples, 1 failed")
    expect(page.locator("#events tr").first).to_contain_text("argon")
    expect(page.get_by_role("img", name="Chart of argon: from")).to_be_visible()
    expect(page.locator("#connection")).to_have_text("recorded")
    assert page.title() == "furnace – Penstock"


def test_zoom_by_keys_and_the_csv_of_what_is_visible(
    serve: Any, page: Page, tmp_path: Path
) -> None:
    page.goto(serve(recorded()).url)
    drawn(page, "argon", 150)
    page.evaluate(f"() => window.penstock.zoomTo([{START / 1e9 + 3.01}, {START / 1e9 + 4.51}])")
    begin, end = page.evaluate("() => window.penstock.visible")
    page.evaluate("() => window.penstock.draw()")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    download.value.save_as(tmp_path / "visible.csv")
    with open(tmp_path / "visible.csv", newline="", encoding="utf-8") as file:
        found = [
            row["value_max"]
            for row in csv.DictReader(file)
            if (row["device"], row["quantity"]) == ("oxygen", "Mass_Flow")
        ]
    wanted = [
        repr(row.values["Mass_Flow"]).removesuffix(".0")
        for row in wave("oxygen", 150)
        if begin <= row.t_utc.timestamp() <= end
    ]
    assert found == wanted
    page.keyboard.press("ArrowRight")
    reached(page, "begin => window.penstock.visible[0] > begin", arg=begin)
    page.keyboard.press("+")
    reached(
        page,
        "span => window.penstock.visible[1] - window.penstock.visible[0] < span",
        arg=0.6 * (end - begin),
    )
    page.keyboard.press("0")
    reached(page, "() => window.penstock.visible[1] - window.penstock.visible[0] > 7")


def test_live_rows_arrive_alarms_show_and_pause_stops(serve: Any, page: Page) -> None:
    board = Board("live", limits={"argon": Limits(0, 200)})
    board.add(table(wave("argon", 100)))
    served = serve(board)
    page.goto(served.url)
    page.evaluate(f"() => window.penstock.zoomTo([{START / 1e9 - 1}, {START / 1e9 + 12}])")
    drawn(page, "argon", 100)
    served.do(board.add, table(wave("argon", 100, begin=5)))
    assert drawn(page, "argon", 200)[1][-1] == wave("argon", 100)[-1].values["Mass_Flow"]
    served.do(board.add, table([sample("argon", 10.0, 250.0)]))
    expect(page.get_by_role("alert")).to_contain_text("argon: above limit")
    expect(page.locator('[data-device="argon"] .mark').first).to_have_text("above limit")
    expect(page.locator("#events")).to_contain_text("250 SCCM is above the limit 200 SCCM")
    served.do(board.add, table([sample("argon", 10.1, 150.0)]))
    expect(page.locator("#alarms")).to_be_hidden()
    page.get_by_role("button", name="1 min").click()
    expect(page.get_by_role("button", name="1 min")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    paused = page.evaluate("() => window.penstock.visible")
    served.do(board.add, table([sample("argon", 10.2, 151.0)]))
    expect(page.locator('[data-device="argon"] .value')).to_have_text("151")
    assert page.evaluate("() => window.penstock.visible") == paused


def test_the_page_reconnects_when_the_server_is_there_again(serve: Any, page: Page) -> None:
    first = serve(recorded())
    page.goto(first.url)
    drawn(page, "argon", 150)
    first.close()
    expect(page.locator("#connection")).to_have_text("connection lost, trying again")
    board = recorded()
    board.add(table([sample("oxygen", 21.0, 77.0)]))
    serve(board, port=first.port)
    expect(page.locator("#connection")).to_have_text("recorded")
    expect(page.locator('[data-device="oxygen"] .value')).to_have_text("77.000")
    rows = page.locator("#events tr").count()
    assert rows == board.events_seen  # the log is not there twice


def test_the_end_of_a_recording_is_no_fault(serve: Any, page: Page) -> None:
    board = Board("run")
    board.add(table(wave("argon", 100)))
    served = serve(board, FakeControls())
    page.goto(served.url)
    expect(page.locator("#connection")).to_have_text("live")
    # Every state of the line is kept, also one that would be there for a moment only.
    page.evaluate(
        """() => {
          const line = document.getElementById("connection");
          window.states = [];
          new MutationObserver(() => window.states.push(line.dataset.state))
            .observe(line, {attributes: true, childList: true});
        }"""
    )
    served.do(setattr, board, "ended", "the recording has ended")
    served.close()
    ended = page.locator("#connection")
    expect(ended).to_have_text("the recording has ended; this page keeps what it shows")
    expect(page.get_by_role("link", name="CSV")).to_be_hidden()
    expect(page.get_by_role("button", name="Control")).to_be_hidden()
    assert "lost" not in page.evaluate("() => window.states")
    # Another run at the same address is shown as any other.
    board = Board("next run")
    board.add(table([sample("argon", 1.0, 12.0)]))
    serve(board, port=served.port)
    expect(ended).to_have_text("live")
    expect(page.locator('[data-device="argon"] .value')).to_have_text("12")
    expect(page.get_by_role("link", name="CSV")).to_be_visible()


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_scrolls_in_one_direction_only(serve: Any, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    board = recorded()
    board.add(table(wave("a device with quite a long name of its own, unbroken_" * 2, 10)))
    board.log("alarm", "a_sentence_without_blanks_" * 10, "argon")
    page.goto(serve(board).url)
    drawn(page, "argon", 100)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.evaluate(COLOURED, "argon") > 100


def test_dark_and_light_follow_the_system_or_the_button(serve: Any, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(serve(recorded()).url)
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(root).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(root).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(root).to_have_attribute("data-theme", "dark")


def test_every_control_has_a_name_and_the_keyboard_reaches_it(serve: Any, page: Page) -> None:
    page.goto(serve(recorded()).url)
    drawn(page, "argon", 150)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, a, input, [role=img], [role=region]")]
             .filter(e => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") ||
                            e.textContent.trim() || e.closest("label")))
             .map(e => e.outerHTML)"""
    )
    assert nameless == []
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the devices")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="1 min")).to_be_focused()
