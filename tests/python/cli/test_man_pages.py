"""The manual pages: one for each command, with each of its options, and without roff errors."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli._parser import build_parser

SCRIPT = Path(__file__).parents[3] / "scripts/packaging/man_pages.py"
PACKAGE = Path(__file__).parents[3] / "python"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "COLUMNS": "40"},
    )
    return {file.stem: file.read_text() for file in folder.iterdir()}


def parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = {parser.prog.replace(" ", "-"): parser}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                found |= parsers(below)
    return found


def test_each_command_has_a_page_with_its_summary(pages: dict[str, str]) -> None:
    assert pages.keys() == parsers(build_parser()).keys()
    for name, text in pages.items():
        title = text.split(".SH NAME\n")[1].splitlines()[0]
        printed = name.replace("-", "\\-")
        assert title.startswith(f"{printed} \\- ") and len(title) > len(printed) + 8, name


def test_each_page_has_the_options_that_help_shows(pages: dict[str, str]) -> None:
    for name, parser in parsers(build_parser()).items():
        for action in parser._actions:
            if action.help != argparse.SUPPRESS:
                for option in action.option_strings:
                    assert option.replace("-", "\\-") in pages[name], f"{option} of {name}"


def test_pages_do_not_depend_on_the_terminal(pages: dict[str, str]) -> None:
    usage = pages["penstock-record"].split(".nf\n")[1].split("\n.fi")[0]
    assert max(len(line.replace("\\-", "-")) for line in usage.splitlines()) > 40


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_no_complaint(pages: dict[str, str]) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-z"],
        input="".join(pages.values()),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
