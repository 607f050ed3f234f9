"""Drags across the charts of the page, by mouse and by finger."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, FloatRect, Page

from penstock.dash import Board
from tests.python.conftest import CORE_MISSING
from tests.python.dash.page_state import drawn, reached, visible
from tests.python.dash.tables import table, wave

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")

DEVICES = ("argon", "nitrogen", "oxygen", "helium")


def recorded(count: int = 150) -> Board:
    board = Board("furnace", live=False)
    board.add(table([row for name in DEVICES for row in wave(name, count)]))
    return board


def shown(page: Page, served: Any) -> None:
    page.goto(served.url)
    for name in DEVICES:
        drawn(page, name, 150)


def area(page: Page, name: str) -> FloatRect:
    """Where a chart has its points."""
    over = page.locator(f'[data-device="{name}"] .u-over')
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    return box


def assert_zoomed(page: Page, before: tuple[float, float], box: FloatRect, *ends: float) -> None:
    """Assert that the page shows what lay between these pixels, to within one of them."""
    begin, end = before
    pixel = (end - begin) / box["width"]
    wanted = [begin + (x - box["x"]) * pixel for x in ends]
    reached(
        page,
        "span => window.penstock.visible[1] - window.penstock.visible[0] < span",
        0.9 * (end - begin),
    )
    assert visible(page) == pytest.approx(wanted, rel=0, abs=1.01 * pixel)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("leftwards", [False, True])
def test_a_drag_by_mouse_zooms_into_what_it_spans(
    serve: Any, page: Page, name: str, leftwards: bool
) -> None:
    shown(page, serve(recorded()))
    box, before = area(page, name), visible(page)
    left, right = box["x"] + round(box["width"] * 0.4), box["x"] + round(box["width"] * 0.6)
    begin, end = (right, left) if leftwards else (left, right)
    page.mouse.move(begin, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(end, box["y"] + 40, steps=4)
    page.mouse.up()
    assert_zoomed(page, before, box, left, right)
    assert page.locator(".chosen:visible").count() == 0


def test_a_drag_that_leaves_the_chart_ends_at_its_edge(serve: Any, page: Page) -> None:
    shown(page, serve(recorded()))
    box, before = area(page, "nitrogen"), visible(page)
    left = box["x"] + round(box["width"] * 0.5)
    page.mouse.move(left, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(5, 5, steps=4)
    assert page.locator(".chosen:visible").count() == len(DEVICES)
    page.mouse.up()
    assert_zoomed(page, before, box, box["x"], left)


def test_a_click_and_a_right_button_do_not_zoom(serve: Any, page: Page) -> None:
    shown(page, serve(recorded()))
    box, before = area(page, "argon"), visible(page)
    page.mouse.click(box["x"] + 100, box["y"] + 40)
    page.mouse.move(box["x"] + 100, box["y"] + 40)
    page.mouse.down(button="right")
    page.mouse.move(box["x"] + 200, box["y"] + 40, steps=4)
    page.mouse.up(button="right")
    assert visible(page) == before


def test_a_double_click_goes_back(serve: Any, page: Page) -> None:
    shown(page, serve(recorded()))
    before = visible(page)
    page.evaluate("([begin, end]) => window.penstock.zoomTo([begin + 1, end - 1])", list(before))
    box = area(page, "argon")
    page.mouse.dblclick(box["x"] + 100, box["y"] + 40)
    assert visible(page) == pytest.approx(before, rel=0, abs=1e-3)


class Finger:
    """One finger on the screen of a phone, by the browser's own protocol."""

    def __init__(self, session: CDPSession) -> None:
        self.session = session

    def put(self, x: float, y: float) -> None:
        self.send("touchStart", x, y)

    def move(self, x: float, y: float) -> None:
        self.send("touchMove", x, y)

    def lift(self) -> None:
        self.session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    def send(self, kind: str, x: float, y: float) -> None:
        self.session.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]}
        )


@pytest.fixture
def phone(chromium: Browser) -> Any:
    context = chromium.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    yield page, Finger(context.new_cdp_session(page))
    context.close()


@pytest.mark.parametrize("name", ["argon", "oxygen"])
def test_a_finger_that_moves_sideways_zooms(serve: Any, phone: Any, name: str) -> None:
    page, finger = phone
    page.goto(serve(recorded()).url)
    drawn(page, name, 150)
    box, before = area(page, name), visible(page)
    left, right = box["x"] + round(box["width"] * 0.3), box["x"] + round(box["width"] * 0.7)
    finger.put(left, box["y"] + 60)
    for step in range(1, 9):
        finger.move(left + (right - left) * step / 8, box["y"] + 60 + step % 3)
    assert page.locator(".chosen:visible").count() > 0
    finger.lift()
    assert_zoomed(page, before, box, left, right)
    assert page.locator(".chosen:visible").count() == 0


def test_a_finger_that_moves_upwards_scrolls_the_page(serve: Any, phone: Any) -> None:
    page, finger = phone
    page.goto(serve(recorded()).url)
    drawn(page, "argon", 150)
    box, before = area(page, "argon"), visible(page)
    x, y = box["x"] + 100, box["y"] + 100
    finger.put(x, y)
    for step in range(1, 9):
        finger.move(x + step, y - 20 * step)
    finger.lift()
    reached(page, "() => scrollY > 50")
    assert visible(page) == before
    assert page.locator(".chosen:visible").count() == 0


def test_two_taps_go_back(serve: Any, phone: Any) -> None:
    page, finger = phone
    page.goto(serve(recorded()).url)
    drawn(page, "argon", 150)
    begin, end = visible(page)
    page.evaluate("([begin, end]) => window.penstock.zoomTo([begin + 1, end - 1])", [begin, end])
    box = area(page, "argon")
    for _ in range(2):
        finger.put(box["x"] + 100, box["y"] + 60)
        finger.lift()
    reached(page, "begin => window.penstock.visible[0] < begin + 0.5", arg=begin)
