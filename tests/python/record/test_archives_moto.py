"""An archive in moto's S3, which answers in other words than the store of test_archives_s3.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.record.archives import archive_files, store_at
from tests.python.integration.moto_s3 import moto_server
from tests.python.record.archived_messages import flows_of, joined_by_one_of_two_owners

TARGET = "s3://lab/archive"


def test_an_archive_is_written_by_one_owner_joined_and_queried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("obstore", "duckdb"):
        pytest.importorskip(module)
    with moto_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        store = store_at(TARGET)
        joined_by_one_of_two_owners(store, TARGET)
        [name] = archive_files(TARGET)
        assert flows_of(store, name.removeprefix(f"{TARGET}/")) == [10.0, 20.0, 21.0, 30.0, 31.0]
        out = tmp_path / "rows.json"
        sql = "SELECT run, day, sum(Mass_Flow) AS s FROM samples GROUP BY ALL"
        assert main(["query", TARGET, sql, "--out", str(out)]) == 0
        assert store.read("nothing") is None
        store.delete("nothing")
    assert json.loads(out.read_text()) == [{"run": "r", "day": "2026-11-21", "s": 112.0}]
