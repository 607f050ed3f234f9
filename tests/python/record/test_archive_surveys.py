"""How an archiver finds the runs of a stream, from the pages of a server's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.record._network.protocol import Away
from penstock.record.archives import Archiver, store_at


def discovered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, page: Callable[[int], dict[str, Any]]
) -> list[str]:
    """The runs that an archiver finds where a server answers with ``page(offset)``."""
    asked_for = []

    async def answer(
        connection: object, timeout: float, what: str, asked: dict[str, Any]
    ) -> dict[str, Any]:
        assert what == "STREAM.INFO.lab"
        asked_for.append(asked["offset"])
        assert len(asked_for) < 50, "asked for ever"
        return page(asked["offset"])

    monkeypatch.setattr("penstock.record.archives.archiver.ask", answer)
    archiver = Archiver("nats://h/lab", store_at(str(folder)))
    connection: Any = None
    return asyncio.run(archiver._discover(connection))


def page_of(total: Any, *runs: str) -> dict[str, Any]:
    subjects = {f"lab.{run}.fuel": 1 for run in runs}
    return {"total": total, "state": {"first_seq": 1, "subjects": subjects}}


def test_runs_are_found_in_all_that_a_server_tells_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers name a hundred thousand subjects in one answer, and the rest if they are asked."""
    runs = [f"r{number}" for number in range(5)]

    def page(offset: int) -> dict[str, Any]:
        return page_of(len(runs), *runs[offset:][:2])

    assert discovered(tmp_path, monkeypatch, page) == runs


def test_a_run_that_begins_between_two_pages_does_not_hold_the_survey_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves the others, so that the last page has nothing new."""

    def page(offset: int) -> dict[str, Any]:
        runs = ["a", "r0", "r1", "r2"] if offset else ["r0", "r1", "r2"]
        return page_of(4, *runs[offset : offset + 3])

    assert discovered(tmp_path, monkeypatch, page) == ["r0", "r1", "r2"]


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (lambda offset: page_of(5, "r0", "r1"), r"'lab\.r0\.fuel' again as its subject 2 of 5"),
        (lambda offset: page_of(offset + 9, f"r{offset}"), "9 subjects in 9 pages, .* has 17"),
        (lambda offset: page_of("many", "r0"), "the answer is not JetStream's: .*many"),
        (lambda offset: {"state": ["r0"]}, "the answer is not JetStream's: .*r0"),
    ],
)
def test_pages_of_subjects_that_do_not_end_are_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    page: Callable[[int], dict[str, Any]],
    reason: str,
) -> None:
    monkeypatch.setattr("penstock.record.archives.archiver._MOST_PAGES", 9, raising=False)
    with pytest.raises(Away, match=reason):
        discovered(tmp_path, monkeypatch, page)
