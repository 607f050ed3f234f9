"""A password in an address on the command line is refused, and no message repeats it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli import main

URLS = ["POSTGRESQL://me:secret@h/d", "postgresql://me:#secret@h/d", "REDIS://me:secret@h/d"]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "words",
    [
        ["verify", "URL"],
        ["verify", "run.csv", "--json", "URL"],
        ["recover", "URL"],
        ["plot", "URL"],
        ["export", "URL", "out.csv"],
        ["export", "run.csv", "URL"],
        ["export", "run.csv", "out.csv", "URL"],
        ["query", "URL", "SELECT 1"],
        ["query", "run.csv", "SELECT 1", "--bogus=URL"],
        ["dash", "URL"],
        ["grafana", "URL", "folder"],
        ["archive", "nats://h/lab", "URL"],
        ["archive", "URL", "folder"],
        ["record", "run.toml", "--postgres-dsn", "URL"],
        ["send", "spool", "URL"],
    ],
    ids=" ".join,
)
def test_a_url_is_refused_and_not_repeated(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    url: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "to").write_text("here")
    assert main([word.replace("URL", url) for word in words]) == 2
    shown = capsys.readouterr()
    assert "secret" not in shown.out + shown.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spool"]


def test_a_bucket_in_capitals_is_a_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["query", "URL", "SELECT 1"], ["archive", "nats://h/lab", "URL"]):
        words = [word.replace("URL", "S3://me:secret@bucket/lab") for word in command]
        assert main(words) == 2
        error = capsys.readouterr().err
        assert "an archive is a folder, or s3://BUCKET/PREFIX" in error
        assert "secret" not in error
