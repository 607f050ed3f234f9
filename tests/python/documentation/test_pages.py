"""Pages that lead by the hand: each program and command runs and prints what they show."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.python.conftest import CORE_MISSING, skip_absent
from tests.python.documentation.page_steps import (
    DOCS,
    ROOT,
    blocks,
    environment,
    free_port,
    matches,
    patient,
    resembles,
    run,
    served,
    steps,
)
from tests.python.integration.postgres import postgres_server

STARTS = sorted((DOCS / "start").glob("*.md"))
HOWTO = sorted((DOCS / "howto").glob("*.md"))
# Ports that pages name; tests run beside each other, so each gets a free one.
PORTS = ("8000", "8765", "9000")
pytestmark = [
    pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built (run 'make build')"),
    pytest.mark.slow,
]


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def with_steps() -> Iterator[Path]:
    for page in [*STARTS, *HOWTO]:
        if any(step.kind != "cpp" for step in steps(page)):
            yield page


@pytest.mark.parametrize("page", list(with_steps()), ids=name_of)
def test_a_reader_who_follows_the_page_sees_what_it_shows(page: Path, tmp_path: Path) -> None:
    variables = environment(tmp_path, dict(os.environ))
    text = page.read_text(encoding="utf-8")
    ports = {port: str(free_port()) for port in PORTS}

    def here(text: str) -> str:
        return re.sub(r"\b(?:" + "|".join(PORTS) + r")\b", lambda match: ports[match[0]], text)

    with ExitStack() as servers:
        if "DATABASE_URL" in text:
            variables["DATABASE_URL"] = servers.enter_context(postgres_server()).uri()
        for step in steps(page):
            step = step._replace(text=patient(here(step.text)))
            if step.kind == "file":
                assert step.argument is not None
                path = tmp_path / step.argument
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(step.text, encoding="utf-8")
            elif step.kind == "serve":
                servers.enter_context(served(step, tmp_path, variables))
            elif step.kind in ("run", "also"):
                if "probe().available" in step.text and step.output == "True\n":
                    from penstock.uring import probe

                    if not probe().available:
                        skip_absent(probe().reason)
                run(step, tmp_path, variables)


@pytest.mark.parametrize("page", STARTS, ids=name_of)
def test_a_start_needs_at_most_three_commands(page: Path) -> None:
    blocks = re.findall(
        r"(?:^<!-- (\w+)[^\n]*-->\n)?^```sh\n(.*?)^```",
        page.read_text(encoding="utf-8"),
        re.M | re.S,
    )
    commands = [line for kind, block in blocks if kind != "also" for line in block.splitlines()]
    assert 2 <= len(commands) <= 3


@pytest.mark.parametrize("page", [*STARTS, *HOWTO], ids=name_of)
def test_every_program_on_the_page_is_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^<!-- (\w+)[^\n]*-->\n+)?^```(\w+)$", text, re.M)
    programs = [kind for kind, language in blocks if language in ("python", "cpp", "py")]
    assert "" not in programs


@pytest.mark.parametrize("page", [*STARTS, *HOWTO], ids=name_of)
def test_a_cpp_program_is_one_that_the_cpp_tests_run(page: Path) -> None:
    for step in steps(page):
        if step.kind == "cpp":
            source = ROOT / "examples/cpp" / f"{step.argument}.cpp"
            assert step.text in source.read_text(encoding="utf-8")
            tests = (ROOT / "tests/cpp/coro/examples_test.cpp").read_text(encoding="utf-8")
            assert f'"{step.argument}"' in tests


@pytest.mark.parametrize("name", ["start/cpp", "cpp"])
def test_a_page_that_calls_pkg_config_has_it_installed(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    (packages,) = re.findall(r"`apt-get install ([^`]+)`", text)
    programs = {"cmake", "pkg-config"} & set(re.findall(r"[\w-]+", text))
    assert programs <= set(packages.split())


# Which test runs the programs, commands and files of each page outside docs/start and docs/howto.
RUN_BY = {
    "alarms": "cli/test_alarm_states.py",
    "alicat": "alicat/test_documentation.py",
    "archive": "record/test_run_archives.py",
    "asgi": "asgi/test_documentation.py",
    "cli": "documentation/test_cli_page.py",
    "cpp": "documentation/test_cpp_page.py",
    "dash": "dash/test_documentation.py",
    "description": "test_distribution.py",
    "files": "files/test_documentation.py",
    "files-paths": "files/test_documentation.py",
    "influx": "record/test_documented_sinks.py",
    "instruments": "record/test_other_families.py",
    "limits": "documentation/test_troubleshooting.py",
    "loop": "integration/test_documentation.py",
    "mqtt": "record/test_documented_sinks.py",
    "nats": "record/test_documented_sinks.py",
    "netcdf": "record/test_exported_netcdf.py",
    "record": "documentation/test_record_page.py",
    "security": "record/test_least_rights.py",
    "serial": "serial/test_documentation.py",
    "serial-reach": "serial/test_documentation.py",
    "sim": "sim/test_docs.py",
    "sinks": "record/test_documented_sinks.py",
    "sparkplug": "record/test_documented_sinks.py",
    "uring": "uring/test_documentation.py",
    "websocket": "websocket/test_documentation.py",
}


def test_every_page_with_programs_has_a_test_that_runs_them() -> None:
    pages = [page for page in DOCS.rglob("*.md") if page.parent.name not in ("start", "howto")]
    with_programs = {
        name_of(page) for page in pages if any(block.language != "text" for block in blocks(page))
    }
    assert with_programs == RUN_BY.keys()
    for name, test in RUN_BY.items():
        assert name in (ROOT / "tests/python" / test).read_text(encoding="utf-8")


def test_a_shown_line_may_leave_text_open() -> None:
    assert matches("a … c\n…\nend\n", "a b c\nmore\nlines\nend\n")
    assert not matches("a … c\nend\n", "a b d\nend\n")


SAMPLE = (
    "recorded 2 devices, worst latency 27.6 ms\n…\n  argon      20     0\n  oxygen    150     0\n"
)


def test_a_sample_leaves_figures_open_and_nothing_else() -> None:
    printed = "  oxygen  7  0\n  argon 1.5 0\nrecorded 2 devices, worst latency 9 ms\nanother\n"
    assert resembles(SAMPLE, printed)
    assert not resembles(SAMPLE.replace("…\n", ""), printed)
    assert not resembles(SAMPLE, printed.replace("oxygen", "helium"))
    assert not resembles(SAMPLE, printed.replace("9 ms", "9 s"))
    assert not resembles(SAMPLE, printed.replace("argon 1.5 0", "argon 1.5"))


@pytest.mark.parametrize("page", [*STARTS, *HOWTO], ids=name_of)
def test_a_command_has_output_that_tells_something(page: Path) -> None:
    assert "…" not in [(step.output or "").strip() for step in steps(page)]
