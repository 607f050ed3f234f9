"""The command that compares what the compiler needs for the examples of two checkouts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import compile_time
from benchmarks.compile_time import EXAMPLES, NotCompiled, checkout_of, counts_in, main
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.native import BENCHMARKS

LOGS = """\
==7== Command: /usr/bin/c++ -c echo.cpp
==7== I   refs:      1,234,567
==8== I refs: 20
"""

needs_compiler = pytest.mark.skipif(shutil.which(SYSTEM) is None, reason="no C++ compiler")


def make_checkout(folder: Path, text: str) -> Path:
    example = folder / "examples/cpp/echo.cpp"
    example.parent.mkdir(parents=True)
    example.write_text(f"#include <penstock/value.hpp>\nint main() {{ return {text}; }}\n")
    header = folder / "include/penstock/value.hpp"
    header.parent.mkdir(parents=True)
    header.write_text("constexpr int value = 0;\n")
    return folder


def compare(before: Path, *options: str) -> int:
    return main(
        [str(before), "--examples", "echo", "--compilers", SYSTEM, "--rounds", "2", *options]
    )


def test_each_example_is_one_of_the_checkout() -> None:
    for name in EXAMPLES:
        assert (BENCHMARKS.parent / "examples" / "cpp" / f"{name}.cpp").exists()


def test_the_counts_of_all_processes_are_read() -> None:
    assert counts_in(LOGS) == [1_234_567, 20]


@needs_compiler
def test_two_checkouts_are_compiled_with_their_own_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile_time, "ROOT", make_checkout(tmp_path / "new", "value"))
    assert compare(make_checkout(tmp_path / "old", "value")) == 0
    assert "| echo    | c++" in capsys.readouterr().out


@needs_compiler
def test_an_example_that_does_not_compile_is_an_error_in_the_compilers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile_time, "ROOT", make_checkout(tmp_path / "new", "value"))
    assert compare(make_checkout(tmp_path / "old", "other")) == 1
    said = capsys.readouterr().err
    assert "old/examples/cpp/echo.cpp" in said
    assert "other" in said


def test_a_compiler_that_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), "--compilers", "no-such-compiler"]) == 1
    assert "no-such-compiler is not installed" in capsys.readouterr().err


def test_what_is_neither_a_folder_nor_a_commit_is_refused() -> None:
    with (
        pytest.raises(NotCompiled, match="neither a folder nor a commit"),
        checkout_of("no-such-commit"),
    ):
        pass
