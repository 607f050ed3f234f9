"""The append logs that Python and C++ share: tests/append_log_cases.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.files import AppendLog, LogDamaged, NotALog

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]

TABLE = Path(__file__).parents[2] / "append_log_cases.txt"
LINES = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
CASES = [tuple(each.strip() for each in line.split("|")) for line in LINES]
BYTES = {name: bytes.fromhex(content) for name, *_, content in CASES}
ERRORS = {"damaged": LogDamaged, "not a log": NotALog}


async def test_each_log_is_opened_as_the_table_says(tmp_path: Path) -> None:
    for name, outcome, records, torn, _ in CASES:
        path = tmp_path / name
        path.write_bytes(BYTES[name])
        if outcome == "ok":
            async with AppendLog(path) as log:
                found = log.recovered
                assert (found.records, found.torn) == (int(records), int(torn)), name
        else:
            with pytest.raises(ERRORS[outcome]):
                await AppendLog(path).open()
            assert path.read_bytes() == BYTES[name], name


async def test_appends_write_the_bytes_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(BYTES["complete"])
    async with AppendLog(path) as log:
        assert await log.append(b"more") == 6
        assert await log.append_many([b"xyz", b""]) == range(7, 9)
    assert path.read_bytes() == BYTES["continued"]
