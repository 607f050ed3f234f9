"""The programs of the pages influx, mqtt, nats, sparkplug and sinks, whose server is away."""

from __future__ import annotations

import asyncio
import re
import socket
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import main as command
from penstock.record import Field, PollResult, SinkWriteError, poll_timed
from tests.python.documentation.page_steps import DOCS, blocks


class Thermometer:
    """A source of one device."""

    names = ("bath",)
    source_id = "thermometer"
    revision = 0

    def field_schemas(self) -> Mapping[str, Sequence[Field]]:
        return {"bath": [Field("Temperature", "float", "C")]}

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, PollResult]:
        async def ask() -> dict[str, float]:
            return {"Temperature": 20.5}

        return {"bath": await poll_timed(ask)}


def programs(page: str, language: str) -> list[str]:
    found = [block.text for block in blocks(DOCS / f"{page}.md") if block.language == language]
    assert found
    return found


@pytest.fixture
def closed_port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    """A port of loopback on which nobody listens; the working folder is empty."""
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("page", ["influx", "mqtt", "nats", "sparkplug"])
def test_a_program_keeps_its_rows_while_the_server_is_away(page: str, closed_port: int) -> None:
    if page == "nats":
        pytest.importorskip("pyarrow")
    code = programs(page, "python")[0]
    code = re.sub(r"(://)[a-z-]+(:\d+)?/", rf"\g<1>127.0.0.1:{closed_port}/", code)
    code = code.replace("duration=60", "duration=0.3")
    code = re.sub(r'Sink\("([^"]+)"\)', r'Sink("\1", close_timeout=0.1)', code)
    names: dict[str, Any] = {}
    exec(compile(code, f"docs/{page}.md", "exec"), names)
    with pytest.raises(SinkWriteError, match="did not accept the last rows"):
        asyncio.run(names["main"](Thermometer()))
    assert list(Path().glob("*spool*/*.log"))


def test_the_table_of_a_sink_is_checked(
    closed_port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    (text,) = programs("sinks", "toml")
    assert tomllib.loads(text)["sink"]
    text = text.replace("lab-server:8086", f"127.0.0.1:{closed_port}")
    Path("run.toml").write_text(text, encoding="utf-8")
    assert command(["record", "--check", "run.toml"]) != 0
    assert "device" in capfd.readouterr().err  # the page's table is a part of a file
