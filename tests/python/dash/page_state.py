"""What the tests read from the page in the browser, and how they wait for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATIENCE_MS = 30_000
DATA = """name => {
  const card = window.penstock.cards.get(name);
  return card.plot === null ? null : card.data;
}"""


def reached(page: Page, condition: str, arg: object = None) -> None:
    """Wait for a condition. Playwright's own wait needs eval, which the page's policy forbids."""
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while not page.evaluate(condition, arg):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(20)


def drawn(page: Page, name: str, rows: int) -> list[list[Any]]:
    reached(
        page,
        "([name, rows]) => window.penstock.cards.get(name)?.plot?.data[0].length >= rows",
        arg=[name, rows],
    )
    data: list[list[Any]] = page.evaluate(DATA, name)
    return data


def visible(page: Page) -> tuple[float, float]:
    """The range of time that the charts show."""
    begin, end = page.evaluate("() => window.penstock.visible")
    return begin, end
