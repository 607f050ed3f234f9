"""``penstock serve``: options in the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.cli import main
from penstock.cli._parser import build_parser
from penstock.cli._serve.environment import _OWN, _PLURALS
from tests.python.conftest import CORE_MISSING

from .test_serve import folder, serving  # noqa: F401

pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)


def given(monkeypatch: pytest.MonkeyPatch, words: list[str], **variables: str) -> Any:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return build_parser(["serve", *words]).parse_args(["serve", *words])


def test_options_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    options = given(
        monkeypatch,
        ["--host", "::1", "--header", "C:d", "--no-date-header"],
        PENSTOCK_APP="served:app",
        PENSTOCK_HOST="0.0.0.0",
        PENSTOCK_PORT="81",
        UVICORN_PORT="82",
        UVICORN_UDS="",
        UVICORN_TIMEOUT_KEEP_ALIVE="7",
        UVICORN_TIMEOUT_HEAD="1",  # uvicorn has no such option
        UVICORN_ACCESS_LOG="False",
        UVICORN_DATE_HEADER="yes",
        UVICORN_RELOAD="on",
        UVICORN_WS_PER_MESSAGE_DEFLATE="f",
        UVICORN_HEADERS="A:b",
        UVICORN_RELOAD_DIRS="/a b:/c",
        UVICORN_RELOAD_INCLUDES="*.html *.css",
        UVICORN_LIFESPAN="off",
        PENSTOCK_STATIC="/a=b /c=d",
        PENSTOCK_TIMEOUT_BODY="9",
    )
    expected = {
        "app": "served:app",
        "host": "::1",
        "port": 81,
        "uds": None,
        "timeout_keep_alive": 7.0,
        "timeout_head": 30.0,
        "timeout_body": 9.0,
        "access_log": False,
        "date_header": False,
        "reload": True,
        "ws_per_message_deflate": False,
        "header": [("C", "d")],
        "reload_dir": ("/a b", "/c"),
        "reload_include": ("*.html", "*.css"),
        "lifespan": "off",
        "static": (("/a", "b"), ("/c", "d")),
    }
    assert {name: getattr(options, name) for name in expected} == expected
    assert given(monkeypatch, ["other:app"]).app == "other:app"


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("PENSTOCK_PORT", "70000", "70000 is not a port"),
        ("UVICORN_PORT", "http", "'http' is not valid"),
        ("UVICORN_RELOAD", "often", "often is neither true nor false"),
        ("UVICORN_LIFESPAN", "never", "never is not one of auto, on, off"),
        ("UVICORN_HEADERS", "A:b c", "c has no colon"),
    ],
)
def test_a_wrong_option_in_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
    reason: str,
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(["serve", "served:app"]) == 2
    assert f"the variable {variable}: {reason}" in capsys.readouterr().err


def test_each_variable_of_uvicorn_is_read() -> None:
    theirs = pytest.importorskip("uvicorn.main").main.params
    ours = {
        _PLURALS.get(action.dest, action.dest)
        for action in build_parser(["serve"]).commands.choices["serve"]._actions
        if action.dest not in _OWN
    }
    assert {option.name for option in theirs} - ours == {"version"}
    assert ours - {option.name for option in theirs} == {"help"}


def test_workers_serve_by_what_the_environment_says(
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UVICORN_APP", "served:app")
    monkeypatch.setenv("UVICORN_WORKERS", "2")
    monkeypatch.setenv("UVICORN_HEADERS", "X-A:b X-C:d")
    with serving(folder) as (process, url):
        answer = httpx.get(url, trust_env=False)
        assert (answer.headers["x-a"], answer.headers["x-c"]) == ("b", "d")
        assert answer.text.split()[0] != str(process.pid)
