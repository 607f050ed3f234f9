"""Changes at instruments from the page: token, confirmation, keyboard."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from playwright.sync_api import Page, expect

from penstock.dash import Board
from tests.python.conftest import CORE_MISSING
from tests.python.dash.served_boards import FakeControls
from tests.python.dash.tables import table, wave

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")


def recorded() -> Board:
    board = Board("furnace", live=False)
    board.add(table([*wave("argon", 150), *wave("oxygen", 150)]))
    return board


def unlock(page: Page, served: Any) -> None:
    page.goto(served.url)
    page.get_by_role("button", name="Control").click()
    page.keyboard.type(served.dashboard.token.text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Control: unlocked")).to_be_visible()
    expect(page.locator("#unlock")).to_be_hidden()


def test_a_setpoint_needs_token_and_confirmation(serve: Any, page: Page) -> None:
    controls = FakeControls()
    served = serve(recorded(), controls)
    page.goto(served.url)
    setpoint = page.get_by_role("button", name="Setpoint of argon")
    expect(page.get_by_role("button", name="Control")).to_be_visible()
    expect(setpoint).to_have_count(0)
    refused = page.evaluate(
        """() => window.penstock.connection.ask(
             {type: "setpoint", device: "argon", value: 5, confirmed: true})"""
    )
    assert refused["ok"] is False
    page.get_by_role("button", name="Control").click()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Unlock").click()
    expect(page.locator("#unlock-answer")).to_have_text("this is not the token of this run")
    expect(page.locator("#unlock")).to_be_visible()
    expect(page.get_by_label("Token")).to_be_focused()
    expect(setpoint).to_have_count(0)
    page.get_by_label("Token").fill(served.dashboard.token.text)
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_role("button", name="Control: unlocked")).to_be_visible()
    expect(page.locator("#unlock")).to_be_hidden()
    assert page.get_by_label("Token").input_value() == ""
    assert served.dashboard.token.text not in page.url
    setpoint.click()
    page.get_by_label("New setpoint in SCCM").fill("42.5")
    page.get_by_label("New setpoint in SCCM").press("Enter")
    expect(page.locator("#change-question")).to_have_text(
        "Change the setpoint of argon from 100 to 42.5 SCCM?"
    )
    assert controls.changes == []
    page.get_by_role("button", name="Change it").click()
    expect(page.locator("#change-answer")).to_have_text("argon has 42.5")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Gas of oxygen").click()
    page.get_by_label("New gas").select_option("N2")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Change it").click()
    expect(page.locator("#change-answer")).to_have_text("oxygen has N2")
    assert controls.changes == [("argon", 42.5), ("oxygen", "N2")]


def test_a_wrong_token_does_not_lock_a_page_again_that_reconnects(serve: Any, page: Page) -> None:
    served = serve(recorded(), FakeControls())
    page.goto(served.url)
    page.get_by_role("button", name="Control").click()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#unlock-answer")).to_have_text("this is not the token of this run")
    assert page.evaluate("() => window.penstock.connection.token") is None
    page.keyboard.type(served.dashboard.token.text)  # instead of the wrong one, which is selected
    page.keyboard.press("Enter")
    expect(page.locator("#unlock")).to_be_hidden()
    assert page.evaluate("() => window.penstock.connection.token") == served.dashboard.token.text


def test_a_change_is_made_by_keyboard_alone(serve: Any, page: Page) -> None:
    controls = FakeControls()
    served = serve(recorded(), controls)
    controls.hold = served.do(anyio.Event)
    unlock(page, served)
    opener = page.get_by_role("button", name="Setpoint of argon")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("New setpoint in SCCM")).to_be_focused()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("33")
    page.keyboard.press("Enter")
    step = page.locator("#change-next")
    expect(step).to_have_text("Change it")
    expect(step).to_be_focused()
    assert controls.changes == []
    page.keyboard.press("Enter")
    expect(page.locator("#change-answer")).to_have_text("sent")
    expect(step).to_be_focused()
    page.keyboard.press("Enter")  # changes nothing while the answer is awaited
    served.do(controls.hold.set)
    expect(page.locator("#change-answer")).to_have_text("argon has 33")
    expect(step).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#change")).to_be_hidden()
    expect(opener).to_be_focused()
    assert controls.changes == [("argon", 33)]


def test_a_key_that_is_held_down_does_not_confirm(serve: Any, page: Page) -> None:
    controls = FakeControls()
    unlock(page, serve(recorded(), controls))
    page.get_by_role("button", name="Setpoint of argon").click()
    page.keyboard.type("33")
    for _ in range(4):  # without a release in between, the browser takes it for a repetition
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    expect(page.locator("#change-next")).to_have_text("Change it")
    assert controls.changes == []
