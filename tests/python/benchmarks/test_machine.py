"""What is recorded of the machine: commit, versions, and the compilers of what is measured."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

from benchmarks.measure.compilers import compilers_in, compilers_of, version_of_compiler
from benchmarks.measure.machine import commit, describe, machine_facts, python_build

COMMENTS = """
String dump of section '.comment':
  [     0]  GCC: (GNU) 4.8.5 20150623 (Red Hat 4.8.5-44)
  [    2d]  Linker: LLD 19.1.7 (/checkout/src/llvm-project 1a2b3c)
  [    6d]  Debian clang version 19.1.7 (3+b1)
  [    a9]  rustc version 1.83.0 (90b35a623 2024-11-26)
  [    d6]  GCC: (Debian 12.2.0-14+deb12u1) 12.2.0
  [    ff]  a compiler of tomorrow 1.0
"""


def test_compilers_are_read_from_the_comments_of_object_files() -> None:
    assert list(compilers_in(COMMENTS)) == [
        "GCC 4.8.5",
        "LLD 19.1.7",
        "clang 19.1.7",
        "rustc 1.83.0",
        "GCC 12.2.0",
        "a compiler of tomorrow 1.0",
    ]
    assert list(compilers_in("no section")) == []


def test_the_extension_of_the_source_tree_names_its_compiler() -> None:
    import penstock

    folder = Path(penstock.__file__).parent
    if not list(folder.glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}")):
        pytest.skip("the extension module is not built")
    named = compilers_of("penstock")
    assert named is not None
    assert named.startswith(("GCC ", "clang "))


def test_a_package_in_python_alone_and_one_that_is_not_there_have_no_compiler() -> None:
    assert compilers_of("pytest") is None
    assert compilers_of("no-such-package") is None


def test_a_missing_compiler_has_no_version() -> None:
    assert version_of_compiler("no-such-compiler") is None


def test_facts_are_described_with_commit_versions_and_compilers() -> None:
    facts = machine_facts(["pytest"], further={"bun": "1.4.5", "lacking": None})
    facts |= {
        "commit": "abc1234",
        "native_compiler": "c++ 12",
        "package_compilers": {"pytest": "GCC 1"},
    }
    text = describe(facts)
    assert "commit abc1234, on " in text
    assert f"({facts['compiler']}, {python_build()})" in text
    assert f"pytest {pytest.__version__} (GCC 1), bun 1.4.5, programs in C++ by c++ 12." in text
    assert "lacking" not in text


def test_a_checkout_names_its_commit_and_whether_it_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.measure.machine.ROOT", tmp_path)
    assert commit() is None

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(
            ["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True
        )

    for folder in ("src", "include", "python", "benchmarks/results"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text("1")
    git("init")
    git("add", ".")
    git("commit", "-m", "Begin")
    clean = commit()
    assert clean is not None
    (tmp_path / "benchmarks" / "results" / "file").write_text("2")
    assert commit() == clean
    (tmp_path / "src" / "file").write_text("2")
    assert commit() == f"{clean} with changes"
