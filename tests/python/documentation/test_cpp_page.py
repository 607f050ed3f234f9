"""The programs of docs/cpp.md are in the C++ test that compiles them and runs what it can."""

from __future__ import annotations

import pytest

from tests.python.documentation.page_steps import DOCS, ROOT, blocks

PROGRAMS = [block.text for block in blocks(DOCS / "cpp.md") if block.language == "cpp"]
TEST = ROOT / "tests/cpp/coro/documentation/cpp_page_test.cpp"


def test_the_page_has_programs() -> None:
    assert len(PROGRAMS) >= 7


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_is_compiled_as_it_stands(number: int) -> None:
    assert PROGRAMS[number] in TEST.read_text(encoding="utf-8")
