"""The README's examples are programs: each runs unchanged and prints the shown output.

One of them stands in ARCHITECTURE.md.

An example is a fenced block under a line ``<!-- example: NAME -->``. A ``text`` block directly
after it is its exact output.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.python.conftest import CORE_MISSING

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(
    r"^<!-- example: (?P<name>[\w-]+) -->\n+"
    r"```(?P<language>\w+)\n(?P<code>.*?)^```\n"
    r"(?:\n*```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
# With the example of the floor without coroutines, which any C++20 compiler builds.
EXAMPLES = TEXT + (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
# The C++ example is compiled with floor 1 of the library, which takes a loaded machine minutes.
SECONDS_AN_EXAMPLE = 500


class Example(NamedTuple):
    name: str
    language: str
    code: str
    output: str | None


def examples(language: str) -> list[Example]:
    found = [Example(**match.groupdict()) for match in EXAMPLE.finditer(EXAMPLES)]
    return [example for example in found if example.language == language]


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_AN_EXAMPLE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built (run 'make build')")
@pytest.mark.parametrize("example", examples("python"), ids=lambda example: example.name)
def test_python_example_prints_what_the_readme_shows(example: Example, tmp_path: Path) -> None:
    program = tmp_path / f"{example.name}_example.py"
    program.write_text(example.code, encoding="utf-8")

    printed = run([sys.executable, program.name], tmp_path)

    assert printed == example.output


@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", examples("cpp"), ids=lambda example: example.name)
def test_cpp_example_prints_what_the_readme_shows(example: Example, tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler on the path")
    source = tmp_path / f"{example.name}.cpp"
    source.write_text(example.code, encoding="utf-8")
    program = tmp_path / example.name
    # Without io_uring, which needs liburing; files use the thread engine.
    floor = sorted(map(str, (ROOT / "src" / "io").glob("[!u]*.cpp")))
    strict = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]
    folders = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
    run([compiler, *strict, *folders, str(source), *floor, "-o", str(program)], tmp_path)

    printed = run([str(program)], tmp_path)

    assert printed == example.output


def test_every_extra_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (everything,) = project["optional-dependencies"]["all"]
    extras = set(everything.partition("[")[2].rstrip("]").split(","))
    installing = TEXT.partition("## Installing")[2].partition("\n## ")[0]
    assert extras <= set(re.findall(r"`(\w+)`", installing)) | {"cli"}
    assert "'.[cli]'" in installing
    table = (ROOT / "docs/install.md").read_text(encoding="utf-8").partition("| extra |")[2]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", table, re.M)
    assert set(re.findall(r"\w+", " ".join(rows))) == {*extras, "all"}


def test_the_commands_of_the_table_exist() -> None:
    (row,) = re.findall(r"^\| (`penstock demo`.*?) and others \|", TEXT, re.M)
    named = set(re.findall(r"`(?:penstock )?(\w+)`", row))
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    commands = set(re.findall(r"^    penstock (\w+) {2,}\w", page, re.M))
    assert len(named) > 3 and named <= commands


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on the path")
@pytest.mark.parametrize(
    ("arguments", "jobs"), [("--dash --duration 5", ["demo", "dash"]), ("", ["demo"])]
)
def test_make_demo_installs_what_the_dashboard_needs(arguments: str, jobs: list[str]) -> None:
    command = ["make", "--dry-run", "--no-print-directory", "demo", f"DEMO_ARGS={arguments}"]
    first = run(command, ROOT).splitlines()[0]
    assert first.split() == ["scripts/setup", *jobs]
    refused = subprocess.run(
        [str(ROOT / "scripts/setup"), *jobs, "no-such-job"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "unknown job 'no-such-job'" in refused.stderr + refused.stdout


def test_every_example_is_found() -> None:
    names = {example.name for example in examples("python") + examples("cpp")}

    assert names == {"loop", "record", "event-loop"}


def test_a_program_of_a_page_is_the_one_that_the_page_has() -> None:
    found = re.findall(r"^<!-- page: (\S+) -->\n(```cpp\n.*?^```\n)", TEXT, re.M | re.S)
    assert found
    for page, program in found:
        assert program in (ROOT / page).read_text(encoding="utf-8")
