"""What the page says: alarms, events, numbers, times and their zone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.dash import Board, Limits
from tests.python.conftest import CORE_MISSING
from tests.python.dash.page_state import drawn, reached
from tests.python.dash.tables import sample, table, wave

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")


def test_the_banner_and_the_tile_name_an_alarm_alike(serve: Any, page: Page) -> None:
    board = Board("furnace", live=False, limits={"argon": Limits(None, 120)})
    board.add(table([sample("argon", 0, 300.0)]))
    page.goto(serve(board).url)
    expect(page.get_by_role("alert")).to_have_text("Alarm: argon: above limit")
    expect(page.locator(".mark.bad")).to_have_text("above limit")


def test_events_are_in_words(serve: Any, page: Page) -> None:
    board = Board("furnace", live=False)
    board.add(
        table(
            [
                *wave("argon", 10),
                sample("argon", 1, event="setpoint", message="setpoint: ALS 100.0"),
                sample("argon", 2, event="setpoint", message="setpoint_legacy: AS -12.5"),
                sample("argon", 3, event="missed_slots", message="3 missed"),
                sample("argon", 4, event="connection_lost", message="no answer"),
                sample("argon", 5, event="setpoint", message="my own: ALS note"),
            ]
        )
    )
    page.goto(serve(board).url)
    rows = page.locator("#events tr")
    expect(rows).to_have_count(5)
    found = [row.locator("td").all_text_contents()[2:] for row in rows.all()]
    assert found == [
        ["setpoint", "my own: ALS note"],
        ["connection lost", "no answer"],
        ["missed slots", "3 missed"],
        ["setpoint", "setpoint -12.5 SCCM"],
        ["setpoint", "setpoint 100 SCCM"],
    ]


@pytest.mark.parametrize(
    ("values", "label"), [((4000.0, 4496.9), "4400"), ((0.0011, 0.0012), "0.00115")]
)
def test_the_axis_has_the_numbers_of_the_tile(
    serve: Any, page: Page, values: tuple[float, float], label: str
) -> None:
    board = Board("furnace", live=False)
    rows = [sample("argon", n / 20, values[n % 2], setpoint=values[0]) for n in range(100)]
    board.add(table(rows))
    page.goto(serve(board).url)
    drawn(page, "argon", 50)
    labels = page.evaluate("() => window.penstock.cards.get('argon').plot.axes[1]._values")
    assert label in labels
    assert not any("," in text for text in labels)
    expect(page.locator(".value")).to_have_text(str(values[1]))


@pytest.fixture(params=["Europe/Berlin", "UTC", "America/St_Johns"])
def abroad(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[tuple[Page, str]]:
    context = chromium.new_context(timezone_id=request.param)
    yield context.new_page(), request.param
    context.close()


def test_the_page_names_its_time_zone(serve: Any, abroad: tuple[Page, str]) -> None:
    page, zone = abroad
    board = Board("furnace", live=False)
    board.add(table(wave("argon", 10)))  # in October
    page.goto(serve(board).url)
    drawn(page, "argon", 10)
    wanted = {
        "UTC": "(UTC)",
        "Europe/Berlin": "(Europe/Berlin, UTC+02:00)",
        "America/St_Johns": "(America/St_Johns, UTC−02:30)",
    }
    expect(page.locator("#range")).to_have_text(re.compile(re.escape(wanted[zone]) + "$"))
    expect(page.get_by_role("link", name="CSV")).to_have_attribute("title", re.compile("UTC"))


LABELS = "() => window.penstock.cards.get('argon').plot.axes[0]._values"


def next_times(page: Page, name: str) -> None:
    page.get_by_text("View", exact=True).click()
    page.get_by_role("button", name="Times:").click()
    expect(page.locator("#times-name")).to_have_text(name)


def test_times_are_told_in_utc_or_since_the_first_sample(
    serve: Any, abroad: tuple[Page, str]
) -> None:
    page, zone = abroad
    board = Board("furnace", live=False)
    day = 86_400 + 3_600
    rows = [
        *wave("argon", 10),
        sample("argon", 61, event="note", message="here"),
        *wave("argon", 10, begin=day),
    ]
    board.add(table(rows))  # from 2096-10-02 07:06:40 UTC on
    page.goto(serve(board).url)
    drawn(page, "argon", 2)
    when = page.locator("#events tr td").first
    range_shown = page.locator("#range")

    next_times(page, "UTC")
    expect(range_shown).to_have_text(re.compile(r"^2096-10-02 06:51.* to 2096-10-03 .*\(UTC\)$"))
    expect(when).to_have_text("2096-10-02 07:07:41")
    assert any(text.startswith("12:00") for text in page.evaluate(LABELS))

    next_times(page, "elapsed")
    local = {"UTC": "07:06:40", "Europe/Berlin": "09:06:40", "America/St_Johns": "04:36:40"}
    expect(range_shown).to_have_text(
        re.compile(rf" since 2096-10-02 {local[zone]} \((.*, )?UTC[^)]*\)$")
    )
    expect(when).to_have_text("00:01:01")
    labels = page.evaluate(LABELS)
    assert "00:00" in labels
    assert any(text.endswith("\n1 d") for text in labels)
    page.evaluate("() => window.penstock.zoomTo([4000000000, 4000000000.2])")
    reached(page, f"() => ({LABELS})().includes('00:00:00.100')")
    page.evaluate("() => window.penstock.reset()")

    page.reload()
    drawn(page, "argon", 2)
    expect(page.locator("#times-name")).to_have_text("elapsed")
    next_times(page, "local")
    later = {"UTC": "07:07:41", "Europe/Berlin": "09:07:41", "America/St_Johns": "04:37:41"}
    expect(when).to_have_text(f"2096-10-02 {later[zone]}")
