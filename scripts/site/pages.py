"""Stages the project's Markdown pages for Sphinx: their places, their links, their order.

A page's place in the contents is its link in an index page, so no second list is kept.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

# The pages at the top of the repository that the site has too.
OF_THE_ROOT = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
# Where files that pages link to, such as examples, are in the site.
FILES = "repository"

_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.M | re.S)
_LINK = re.compile(r"(?P<bang>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
_CODE = re.compile(r"`[^`\n]+`")
# The comment with which the tests find a program also tells a reader of the site the file's name.
_NAMED_CODE = re.compile(r"^<!-- (?:file|cpp): (?P<name>[\w.-]+) -->\n```(?P<language>\w+)\n", re.M)
_SUFFIXES = {"cpp": ".cpp", "python": ".py"}


class BrokenLinkError(Exception):
    """A page links to what does not exist."""


class Page(NamedTuple):
    """A Markdown file of the repository, and its path in the site's sources."""

    source: Path
    place: str


def pages(root: Path) -> list[Page]:
    """All pages of the repository that are in the site."""
    found = [Page(root / name, name) for name in OF_THE_ROOT]
    docs = root / "docs"
    for source in sorted(docs.rglob("*.md")):
        found.append(Page(source, source.relative_to(docs).as_posix()))
    return found


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply ``change`` to the parts of a page that are not fenced code."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def _prose_links(text: str) -> Iterable[re.Match[str]]:
    """Links of prose, without those that stand in inline code."""
    code = [match.span() for match in _CODE.finditer(text)]
    for link in _LINK.finditer(text):
        if not any(start <= link.start() and link.end() <= end for start, end in code):
            yield link


class Staging:
    """Copies pages into the folder of Sphinx's sources, with links that hold there."""

    def __init__(self, root: Path, target: Path, reference: str = "") -> None:
        """``reference`` is appended to the first page: a section with links to generated pages."""
        self._root = root
        self._target = target
        self._reference = reference
        self._pages = pages(root)
        self._places = {page.source.resolve(): page.place for page in self._pages}

    def run(self) -> None:
        """Stage every page."""
        for page in self._pages:
            text = outside_code(
                page.source.read_text(encoding="utf-8"),
                lambda prose, page=page: self._with_links(prose, page),  # type: ignore[misc]
            )
            text = with_captions(text)
            if page.place == "index.md":
                text += self._reference
            if Path(page.place).name == "index.md":
                text += contents(text)
            path = self._target / page.place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def _with_links(self, text: str, page: Page) -> str:
        parts, end = [], 0
        for link in _prose_links(text):
            parts += [text[end : link.start()], self._link(link, page)]
            end = link.end()
        return "".join([*parts, text[end:]])

    def _link(self, link: re.Match[str], page: Page) -> str:
        target = link["target"]
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        name, mark, anchor = target.partition("#")
        path = (page.source.parent / name).resolve()
        from_folder = Path(page.place).parent
        if place := self._places.get(path):
            inside = Path(os.path.relpath(place, from_folder)).as_posix()
            # The name of a file says less than its title.
            text = title(path) if link["text"] == path.name else link["text"]
            return f"{link['bang']}[{text}]({inside}{mark}{anchor})"
        if not path.is_relative_to(self._root) or not path.exists():
            raise BrokenLinkError(
                f"{page.source.relative_to(self._root)}: {target!r} does not exist; "
                "correct the link"
            )
        of_repository = path.relative_to(self._root)
        if path.is_dir():
            return f"{link['text']} (the folder `{of_repository.as_posix()}`)"
        copy = self._target / FILES / of_repository
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        inside = os.path.relpath(Path(FILES) / of_repository, from_folder)
        if path.suffix == ".md":  # no page of the site
            return f"{{download}}`{link['text']} <{inside}>`"
        return f"{link['bang']}[{link['text']}]({inside})"


def title(page: Path) -> str:
    """The heading of a page, without code's marks."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").replace("`", "")


def with_captions(text: str) -> str:
    """The page with the name of its file above each program."""

    def captioned(begin: re.Match[str]) -> str:
        name, language = begin["name"], begin["language"]
        if "." not in name:
            name += _SUFFIXES[language]
        return f"```{{code-block}} {language}\n:caption: {name}\n\n"

    return _NAMED_CODE.sub(captioned, text)


def contents(text: str) -> str:
    """Hidden tables of contents for an index page: one for each section, in the order of links.

    A link of a table or a list counts. Prose may name a page before its place.
    """
    blocks, seen = [], set()
    prose = outside_code(text, lambda part: part)
    for section in re.split(r"^## ", prose, flags=re.M):
        caption = section.partition("\n")[0] if not section.startswith("# ") else ""
        names = []
        listed = "\n".join(re.findall(r"^[|-] .*", section, re.M))
        for link in _prose_links(listed):
            name = link["target"].partition("#")[0]
            if name.endswith(".md") and FILES not in name and name not in seen:
                seen.add(name)
                names.append(name.removesuffix(".md"))
        if names:
            head = "```{toctree}\n:hidden:\n" + (f":caption: {caption}\n" if caption else "")
            blocks.append("\n" + head + "\n" + "\n".join(names) + "\n```\n")
    return "".join(blocks)
