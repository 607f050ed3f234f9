"""How the site is made of pages and docstrings; `make docs` checks the whole of it."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.python.conftest import CORE_MISSING

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def site() -> Iterator[dict[str, ModuleType]]:
    """The modules of scripts/site that need no Sphinx."""
    sys.path.insert(0, str(ROOT / "scripts/site"))
    names = ("pages", "checks", "python_reference", "printed_names", "tables")
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(ROOT / "scripts/site"))
        for name in names:
            sys.modules.pop(name, None)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository: a README, an index, a page, a program."""
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        (tmp_path / name).write_text(f"# {name}\n")
    (tmp_path / "docs/start").mkdir(parents=True)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/program.py").write_text("print()\n")
    (tmp_path / "docs/index.md").write_text(
        "# Docs\n\n[Overview](../README.md)\n\n"
        "## Start\n\nSee [more](more.md).\n\n- [loop](start/loop.md#there)\n"
    )
    (tmp_path / "docs/start/loop.md").write_text("# Loop\n\n[up](../index.md)\n")
    (tmp_path / "docs/more.md").write_text("# More\n")
    return tmp_path


def staged(site: dict[str, ModuleType], tree: Path) -> Path:
    target = tree / "staged"
    site["pages"].Staging(tree, target).run()
    return target


def test_links_between_pages_hold_in_the_site(site: dict[str, ModuleType], tree: Path) -> None:
    index = (staged(site, tree) / "index.md").read_text()
    assert "[Overview](README.md)" in index
    assert "[loop](start/loop.md#there)" in index


def test_a_link_with_the_name_of_a_file_shows_the_title_of_the_page(
    site: dict[str, ModuleType], tree: Path
) -> None:
    (tree / "docs/start/loop.md").write_text("# Loop\n\n[more.md](../more.md#it)\n")
    assert "[More](../more.md#it)" in (staged(site, tree) / "start/loop.md").read_text()


def test_a_section_of_an_index_page_is_a_table_of_contents(
    site: dict[str, ModuleType], tree: Path
) -> None:
    index = (staged(site, tree) / "index.md").read_text()
    assert "```{toctree}\n:hidden:\n:caption: Start\n\nstart/loop\n```" in index


def test_a_program_has_the_name_of_its_file_above_it(
    site: dict[str, ModuleType], tree: Path
) -> None:
    python = "<!-- file: echo.py -->\n```python\npass\n```\n"
    (tree / "docs/start/loop.md").write_text(f"{python}\n<!-- cpp: it -->\n```cpp\n;\n```\n")
    loop = (staged(site, tree) / "start/loop.md").read_text()
    assert "```{code-block} python\n:caption: echo.py\n\npass\n```\n" in loop
    assert "```{code-block} cpp\n:caption: it.cpp\n\n;\n```\n" in loop


def test_a_linked_file_is_copied_into_the_site(site: dict[str, ModuleType], tree: Path) -> None:
    (tree / "docs/start/loop.md").write_text("# Loop\n\n[it](../../examples/program.py)\n")
    target = staged(site, tree)
    assert "[it](../repository/examples/program.py)" in (target / "start/loop.md").read_text()
    assert (target / "repository/examples/program.py").read_text() == "print()\n"


def test_a_link_to_nothing_is_an_error_that_names_the_page(
    site: dict[str, ModuleType], tree: Path
) -> None:
    (tree / "docs/start/loop.md").write_text("# Loop\n\n[gone](../gone.md)\n")
    with pytest.raises(
        site["pages"].BrokenLinkError, match=r"docs/start/loop\.md: '\.\./gone\.md'"
    ):
        staged(site, tree)


def test_code_is_not_taken_for_links(site: dict[str, ModuleType], tree: Path) -> None:
    code = "# Loop\n\n```cpp\n[](Request& r)\nf[i](gone.md)\n```\n\n`a[1](gone.md)`\n"
    (tree / "docs/start/loop.md").write_text(code)
    assert (staged(site, tree) / "start/loop.md").read_text() == code


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        '<img src="http://cdn.example/x.png">',
        '<p style="background: url(https://cdn.example/x.png)">',
        "<style>@import 'https://cdn.example/x.css';</style>",
    ],
)
def test_what_a_browser_would_load_from_elsewhere_is_found(
    site: dict[str, ModuleType], tmp_path: Path, html: str
) -> None:
    (tmp_path / "page.html").write_text(html)
    (found,) = site["checks"].loads_from_elsewhere(tmp_path)
    assert found.startswith("page.html: ") and "cdn.example/x." in found


def test_a_font_from_elsewhere_is_found(site: dict[str, ModuleType], tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("@font-face { src: url('https://cdn.example/x.woff2') }")
    assert list(site["checks"].loads_from_elsewhere(tmp_path)) == [
        "style.css: https://cdn.example/x.woff2"
    ]


def test_links_to_follow_and_own_files_are_allowed(
    site: dict[str, ModuleType], tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://example.org">there</a><script src="_static/own.js"></script>'
        '<img src="data:image/png;base64,AA=="><code>url(https://example.org)</code>'
    )
    assert list(site["checks"].loads_from_elsewhere(tmp_path)) == []


@pytest.mark.parametrize(
    ("html", "name"),
    [
        ("<em>~penstock.alicat.commands.command.Req</em>", "~penstock.alicat.commands.command.Req"),
        ("<b>penstock.sim._line</b><b>.bus.Bus</b>", "penstock.sim._line.bus.Bus"),
        (
            '<a title="penstock.serial._values.PortInfo">PortInfo</a>',
            "penstock.serial._values.PortInfo",
        ),
        ("<span>detail</span><span>::</span><span>Read</span>", "detail::Read"),
        ("<em>&lt;function _never&gt;</em>", "<function _never>"),
        ("<em>penstock._core</em>", "penstock._core"),
    ],
)
def test_a_private_name_in_the_reference_is_found(
    site: dict[str, ModuleType], tmp_path: Path, html: str, name: str
) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/page.html").write_text(html)
    assert list(site["checks"].private_names(tmp_path)) == [f"reference/page.html: {name}"]


def test_prose_may_name_the_extension_modules(site: dict[str, ModuleType], tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<p>penstock._core. <a id="penstock.sim._line.bus" href="#penstock._record">Bus</a>'
        " penstock._uring, a ring in detail: std::byte</p>"
    )
    assert list(site["checks"].private_names(tmp_path)) == []


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (print, "..."),
        (frozenset({len}), "frozenset({...})"),
        ("<factory>", "'<factory>'"),
        (b"<factory>", "b'<factory>'"),
        (re.compile, "..."),
        (list(range(100)), "list(...)"),
    ],
)
def test_a_default_value_is_printed_as_an_expression(
    site: dict[str, ModuleType], value: object, printed: str
) -> None:
    assert site["printed_names"].shortened(repr)(value) == printed


def test_a_member_of_an_enumeration_is_printed_by_its_name(site: dict[str, ModuleType]) -> None:
    assert (
        site["printed_names"].expression("<Medium.GAS|LIQUID: 3>") == "Medium.GAS | Medium.LIQUID"
    )
    assert site["printed_names"].expression("f(<Kind.A: 'a'>, <function f>)") == "f(Kind.A, ...)"


def test_a_figure_with_its_spread_is_kept_together(site: dict[str, ModuleType]) -> None:
    is_figure = site["tables"].is_figure
    assert all(
        map(is_figure, ["1.14 (1.13–1.17)", "20,000", "-7.6 %", "12.5 µs", "0.79×", "3 MiB"])
    )
    assert not any(
        map(is_figure, ["", "won", "8 × 2 MiB, whole files", "Linux 5.11", "8 B each row"])
    )


def test_the_reference_is_compared_in_both_directions(site: dict[str, ModuleType]) -> None:
    checks = site["checks"]
    public = {"penstock.run", "penstock.Loop"}
    described = {"penstock.run", "penstock.run_twice"}
    assert checks.missing_names(described, public) == ["penstock.Loop"]
    assert checks.foreign_names(described, public) == ["penstock.run_twice"]
    assert checks.foreign_names({"penstock.Loop.close"}, public) == []


def test_public_names_of_a_header_are_found_without_a_compiler(
    site: dict[str, ModuleType], tmp_path: Path
) -> None:
    header = tmp_path / "a.hpp"
    header.write_text(
        "namespace penstock {\nnamespace detail {\nclass Hidden {\n};\n} // namespace detail\n"
        "class Ahead;\nclass Shown final : public Base {\n    class Inner {};\n};\n"
        "template <typename T> concept Readable = true;\nusing Bytes = int;\n"
        "} // namespace penstock\n"
    )
    assert site["checks"].names_in_headers([header]) == {"Shown", "Readable", "Bytes"}


@pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built (run 'make build')")
def test_every_public_name_is_described_once(site: dict[str, ModuleType]) -> None:
    entries = site["python_reference"].entries()
    names = {entry.full_name for entry in entries}
    for module in ("penstock", "penstock.files", "penstock.serial", "penstock.alicat"):
        loaded = importlib.import_module(module)
        exported = {f"{module}.{name}" for name in loaded.__all__ if name != "__version__"}
        assert exported <= names
    described = [entry.full_name for entry in entries if entry.is_described_here]
    assert len(described) == len(set(described)) > 300
    assert not [name for name in described if "._" in name]


@pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built (run 'make build')")
def test_what_native_code_answers_is_described_as_a_function(site: dict[str, ModuleType]) -> None:
    reference = site["python_reference"]
    entries = {entry.full_name: entry for entry in reference.entries()}
    for name in ("penstock.files.stat", "penstock.files.access"):
        assert list(reference._directive(entries[name], set())) == [f".. autofunction:: {name}"]
    (heading, _, text) = reference._directive(entries["penstock.files.ospath.isdir"], set())
    assert heading.startswith(".. py:function:: isdir(")
    assert text.endswith("path.isdir``.")
