"""Values read from the charts by keyboard."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from penstock.dash import Board
from tests.python.conftest import CORE_MISSING
from tests.python.dash.page_state import drawn, reached, visible
from tests.python.dash.tables import START, sample, table

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")

NAMES = ("argon", "oxygen")


def rows(count: int, begin: float = 0.0) -> list[Any]:
    """A row a second, with values that tell which one it is."""
    return [
        sample(name, begin + n, (1000.0 if name == "oxygen" else 0.0) + begin + n)
        for n in range(count)
        for name in NAMES
    ]


def recorded() -> Board:
    board = Board("furnace", live=False)
    board.add(table(rows(20)))
    return board


def test_arrow_keys_read_the_values_of_a_chart(serve: Any, page: Page) -> None:
    page.goto(serve(recorded()).url)
    drawn(page, "argon", 20)
    drawn(page, "oxygen", 20)
    chart = page.get_by_role("img", name="Chart of oxygen")
    argon, oxygen = (page.locator(f'[data-device="{name}"] .read') for name in NAMES)
    said = page.locator("[aria-live=polite]")
    before = visible(page)
    chart.focus()
    expect(chart).to_be_focused()
    for key, number in [
        ("ArrowLeft", 19),  # from the right edge
        ("ArrowLeft", 18),
        ("ArrowRight", 19),
        ("ArrowRight", 19),
        ("Home", 0),
        ("ArrowRight", 1),
        ("ArrowLeft", 0),
        ("ArrowLeft", 0),
        ("End", 19),
    ]:
        page.keyboard.press(key)
        expect(oxygen).to_contain_text(f": {1000 + number} SCCM, setpoint 100")
        expect(said).to_have_text(
            re.compile(rf"^oxygen, \d\d:\d\d:\d\d\.000: {1000 + number} SCCM, setpoint 100$")
        )
        expect(argon).to_contain_text(f": {number} SCCM")  # the cursors of all charts move
    assert visible(page) == before
    page.keyboard.press("Escape")
    expect(oxygen).to_be_empty()
    expect(argon).to_be_empty()
    page.keyboard.press("ArrowRight")
    expect(oxygen).to_contain_text(": 1000 SCCM")
    page.keyboard.press("Shift+Tab")
    expect(oxygen).to_be_empty()


def test_shift_and_arrows_move_the_range_of_a_focused_chart(serve: Any, page: Page) -> None:
    page.goto(serve(recorded()).url)
    drawn(page, "argon", 20)
    page.get_by_role("img", name="Chart of argon").focus()
    page.keyboard.press("+")
    begin, _ = visible(page)
    page.keyboard.press("Shift+ArrowLeft")
    assert visible(page)[0] < begin


def test_the_cursor_stays_at_its_time_while_a_live_chart_moves(serve: Any, page: Page) -> None:
    board = Board("live")
    board.add(table(rows(20)))
    served = serve(board)
    page.goto(served.url)
    page.get_by_role("button", name="All").click()
    drawn(page, "argon", 20)
    reached(page, "begin => window.penstock.visible[0] > begin - 10", START / 1e9)
    page.get_by_role("img", name="Chart of argon").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    read = page.locator('[data-device="argon"] .read')
    expect(read).to_contain_text(": 17 SCCM")
    left = "() => window.penstock.cards.get('argon').plot.cursor.left"
    before = page.evaluate(left)
    served.do(board.add, table(rows(20, begin=20)))
    reached(page, f"before => ({left})() < 0.75 * before", before)
    expect(read).to_contain_text(": 17 SCCM")
    page.keyboard.press("ArrowRight")
    expect(read).to_contain_text(": 18 SCCM")


def test_the_tab_key_reaches_each_chart(serve: Any, page: Page) -> None:
    page.goto(serve(recorded()).url)
    drawn(page, "oxygen", 20)
    page.get_by_role("button", name="Theme: system").focus()
    for name in NAMES:
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name=f"Curves of {name}")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_role("img", name=f"Chart of {name}")).to_be_focused()
