"""The range of time that the page shows: by its buttons and keys, live and recorded."""

from __future__ import annotations

import time
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.dash import Board
from tests.python.conftest import CORE_MISSING
from tests.python.dash.page_state import drawn, reached, visible
from tests.python.dash.tables import START, sample, table, wave

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")

SPAN = "() => window.penstock.visible[1] - window.penstock.visible[0]"


def live() -> tuple[Board, float]:
    """A live board with the 100 seconds until now, and now in the seconds of the tables."""
    now = time.time() - START / 1e9
    board = Board("live")
    board.add(table(wave("argon", 400, rate=4, begin=now - 100)))
    return board, now


def recorded() -> Board:
    board = Board("furnace", live=False)
    board.add(table(wave("argon", 500)))  # 24.95 s
    return board


def span(page: Page) -> float:
    found: float = page.evaluate(SPAN)
    return found


def pressed(page: Page) -> Locator:
    return page.locator('#spans [aria-pressed="true"]')


def test_zero_goes_back_to_the_span_that_was_chosen(serve: Any, page: Page) -> None:
    page.goto(serve(live()[0]).url)
    drawn(page, "argon", 200)
    assert span(page) == pytest.approx(60, abs=0.01)
    page.keyboard.press("+")
    assert span(page) == pytest.approx(30, abs=0.01)
    expect(pressed(page)).to_have_count(0)
    page.keyboard.press("0")
    assert span(page) == pytest.approx(60, abs=0.01)
    expect(pressed(page)).to_have_text("1 min")
    page.get_by_role("button", name="5 min", exact=True).click()
    page.keyboard.press("-")
    page.keyboard.press("p")
    page.keyboard.press("0")
    assert span(page) == pytest.approx(300, abs=0.01)
    expect(page.get_by_role("button", name="Pause")).to_be_visible()


def test_all_follows_a_growing_recording(serve: Any, page: Page) -> None:
    board, now = live()
    first = START / 1e9 + now - 100
    served = serve(board)
    page.goto(served.url)
    drawn(page, "argon", 200)
    everything = page.get_by_role("button", name="All")
    everything.click()
    expect(pressed(page)).to_have_text("All")
    assert first - 5 < visible(page)[0] < first
    for later in (200, 2000, 20_000):
        served.do(board.add, table([sample("argon", now + later, 1.0)]))
        reached(
            page,
            """([begin, end]) => {
              const [from, to] = window.penstock.visible;
              return from < begin && from > begin - 0.02 * (end - begin) && to > end - 1e-3;
            }""",
            [first, START / 1e9 + now + later],
        )
        # The server was asked for the longer range: its newest sample is on the chart.
        reached(
            page,
            "end => Math.abs(window.penstock.cards.get('argon').data[0].at(-1) - end) < 1e-3",
            START / 1e9 + now + later,
        )
    expect(pressed(page)).to_have_text("All")
    page.keyboard.press("p")
    expect(pressed(page)).to_have_count(0)
    page.keyboard.press("p")
    expect(pressed(page)).to_have_text("All")


def test_everything_of_a_finished_recording_is_shown_as_chosen(serve: Any, page: Page) -> None:
    page.goto(serve(recorded()).url)
    drawn(page, "argon", 100)
    expect(pressed(page)).to_have_text("All")
    page.keyboard.press("+")
    expect(pressed(page)).to_have_count(0)
    assert span(page) == pytest.approx(25.45 / 2, abs=0.01)
    page.keyboard.press("0")
    expect(pressed(page)).to_have_text("All")
    assert span(page) == pytest.approx(25.45, abs=0.01)


def test_a_finished_recording_has_no_pause(serve: Any, page: Page) -> None:
    page.goto(serve(recorded()).url)
    drawn(page, "argon", 100)
    expect(page.locator("#pause")).to_be_hidden()
    before = visible(page)
    page.keyboard.press("p")
    assert visible(page) == before
    page.keyboard.press("+")
    page.evaluate("() => window.penstock.draw()")
    expect(page.locator("#range")).not_to_be_empty()
    expect(page.locator("#range")).not_to_contain_text("paused")


def test_the_pause_of_a_live_page_is_gone_when_its_recording_ends(serve: Any, page: Page) -> None:
    board, _ = live()
    served = serve(board)
    page.goto(served.url)
    drawn(page, "argon", 200)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#range")).to_contain_text("(paused)")
    served.do(setattr, board, "ended", "the recording has ended")
    expect(page.locator("#pause")).to_be_hidden()
    expect(page.locator("#range")).not_to_contain_text("paused")


def test_later_stops_at_now_and_earlier_at_the_first_sample(serve: Any, page: Page) -> None:
    board, now = live()
    first = START / 1e9 + now - 100
    page.goto(serve(board).url)
    drawn(page, "argon", 200)
    page.get_by_role("button", name="Later").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()  # it still follows
    expect(pressed(page)).to_have_text("1 min")
    for _ in range(6):
        page.get_by_role("button", name="Earlier").click()
    begin, end = visible(page)
    assert first - 5 < begin < first
    assert end - begin == pytest.approx(60)
    for _ in range(6):
        page.get_by_role("button", name="Later").click()
    begin, end = visible(page)
    assert end - begin == pytest.approx(60)
    # Now, as of the last click.
    assert START / 1e9 + now < end <= page.evaluate("() => window.penstock.time.now")


def test_a_finished_recording_is_not_left_by_keys(serve: Any, page: Page) -> None:
    page.goto(serve(recorded()).url)
    drawn(page, "argon", 100)
    everything = visible(page)
    for key in ("ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
        assert visible(page) == everything
    page.keyboard.press("+")
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
    assert visible(page)[0] == pytest.approx(everything[0], rel=0, abs=1e-3)
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    assert visible(page)[1] == pytest.approx(everything[1], rel=0, abs=1e-3)


def test_no_number_of_zooms_asks_for_what_the_server_refuses(serve: Any, page: Page) -> None:
    page.goto(serve(live()[0]).url)
    drawn(page, "argon", 200)
    for paused in (False, True):
        if paused:
            page.keyboard.press("p")
        for key in ("-", "+"):
            for _ in range(59):
                page.keyboard.press(key)
            # Before the last key: its question may be asked before the next line asks the page.
            number = page.evaluate("() => window.penstock.viewNumber")
            page.keyboard.press(key)
            reached(page, "number => window.penstock.viewNumber > number", number)
            # A refusal closes the connection; an answer comes over the same one.
            socket = page.evaluate_handle("() => window.penstock.connection.socket")
            seen = page.locator("#connection").get_attribute("data-seq")
            expect(page.locator("#connection")).not_to_have_attribute("data-seq", seen or "")
            assert socket.evaluate("socket => socket === window.penstock.connection.socket")
