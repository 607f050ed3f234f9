"""Where the parts of the page stand, on wide and on narrow screens."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from penstock.dash import Board, Limits
from tests.python.conftest import CORE_MISSING
from tests.python.dash.page_state import drawn
from tests.python.dash.served_boards import FakeControls
from tests.python.dash.tables import sample, table, wave

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")

NAMES = ("argon", "nitrogen", "oxygen", "helium", "hydrogen", "methane", "neon", "xenon")


def board_of(count: int, **options: Any) -> Board:
    board = Board("furnace", live=False, **options)
    board.add(table([row for name in NAMES[:count] for row in wave(name, 100)]))
    return board


def box(part: Locator) -> FloatRect:
    found = part.bounding_box()
    assert found is not None
    return found


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (2, 2), (3, 3), (4, 2), (6, 3), (8, 4)])
def test_the_cards_fill_the_width_in_even_rows(
    serve: Any, page: Page, count: int, columns: int
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(serve(board_of(count)).url)
    drawn(page, "argon", 50)
    cards = [box(card) for card in page.locator(".card").all()]
    first_row = [card for card in cards if card["y"] == cards[0]["y"]]
    assert len(first_row) == columns
    assert first_row[0]["x"] == 16
    assert first_row[-1]["x"] + first_row[-1]["width"] == pytest.approx(1440 - 16, abs=1)
    chart = box(page.locator(".chart").first)
    canvas = box(page.locator("canvas").first)
    assert canvas["height"] == pytest.approx(chart["height"], abs=1)
    assert (chart["height"] > 250) == (count <= 3)


def test_a_chart_follows_the_height_of_the_window(serve: Any, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(serve(board_of(1)).url)
    drawn(page, "argon", 50)
    before = box(page.locator("canvas").first)["height"]
    page.set_viewport_size({"width": 1440, "height": 700})
    page.evaluate("() => window.penstock.draw()")
    assert box(page.locator("canvas").first)["height"] == pytest.approx(before - 200, abs=1)


@pytest.mark.parametrize("width", [1440, 390])
def test_the_link_for_csv_stands_like_a_button(serve: Any, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(serve(board_of(1)).url)
    middles = page.evaluate(
        """() => ["csv", "theme"].map(id => {
             const part = document.getElementById(id);
             const range = document.createRange();
             range.selectNodeContents(part);
             const middle = box => (box.top + box.bottom) / 2;
             return [middle(part.getBoundingClientRect()), middle(range.getBoundingClientRect())];
           })"""
    )
    (link, link_text), (button, button_text) = middles
    assert link == pytest.approx(button, abs=0.6)
    assert link_text == pytest.approx(button_text, abs=1)


@pytest.mark.parametrize("width", [320, 390])
def test_no_name_is_broken_on_a_phone(serve: Any, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    board = board_of(4)
    for number in range(20):
        board.log(
            "connection_lost", "no answer within 0.5 s, the device is away", NAMES[number % 4]
        )
    served = serve(board, FakeControls())
    page.goto(served.url)
    page.get_by_role("button", name="Control").click()
    page.keyboard.type(served.dashboard.token.text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Setpoint of nitrogen")).to_be_visible()
    lines = """part => {
      const range = document.createRange();
      range.selectNode(part.firstChild);
      return range.getClientRects().length;
    }"""
    assert {name.evaluate(lines) for name in page.locator(".card h2").all()} == {1}
    assert {name.evaluate(lines) for name in page.locator("#events td:nth-child(2)").all()} == {1}
    # The messages are there as a whole: nothing is to be scrolled sideways.
    assert (
        page.evaluate(
            """() => {
          const log = document.querySelector(".scroll");
          return log.scrollWidth - log.clientWidth;
        }"""
        )
        == 0
    )
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    expect(page.locator("#events .date").first).to_be_hidden()


def test_kinds_of_events_are_not_broken_on_a_wide_screen(serve: Any, page: Page) -> None:
    board = board_of(1)
    board.log("connection_lost", "a message of many words " * 30, "argon")
    page.goto(serve(board).url)
    expect(page.locator("#events tr")).to_have_count(1)
    words = page.locator("#events td:nth-child(3)").evaluate(
        """cell => ["connection", "lost"].map(word => {
             const range = document.createRange();
             const begin = cell.textContent.indexOf(word);
             range.setStart(cell.firstChild, begin);
             range.setEnd(cell.firstChild, begin + word.length);
             return range.getClientRects().length;
           })"""
    )
    assert words == [1, 1]
    expect(page.locator("#events .date").first).to_be_visible()


@pytest.mark.parametrize(("width", "highest"), [(1280, 60), (390, 130), (320, 170)])
def test_the_tools_and_the_alarms_stay_in_sight(
    serve: Any, page: Page, width: int, highest: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    board = board_of(8, limits={"argon": Limits(None, 500)})
    board.add(table([sample("argon", 20.0, 900.0)]))
    page.goto(serve(board, FakeControls()).url)
    drawn(page, "argon", 50)
    expect(page.get_by_role("button", name="Control")).to_be_visible()
    assert box(page.locator("header"))["height"] <= highest
    page.locator("#version").scroll_into_view_if_needed()
    assert page.evaluate("() => scrollY") > 0
    expect(page.locator("#alarms")).to_be_in_viewport()
    for name in ("1 min", "All", "CSV"):
        role = "link" if name == "CSV" else "button"
        expect(page.get_by_role(role, name=name, exact=True)).to_be_in_viewport(ratio=0.9)
    assert page.title() == "Alarm: argon: above limit – furnace – Penstock"
