"""Checks of the finished site.

Nothing is loaded from elsewhere, the reference is complete, and no page prints a private name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path

# Attributes whose address a browser loads without a click.
_LOADED = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "link": ("href",),
    "use": ("href", "xlink:href"),
}
_ELSEWHERE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.I)
_IN_STYLE = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:[a-z]+:)?//[^"')\s]+)""", re.I)


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        for name, value in attrs:
            if value is None:
                continue
            if name in _LOADED.get(tag, ()) and _ELSEWHERE.match(value):
                self.found.append(value)
            if name == "style":
                self.found += _IN_STYLE.findall(value)

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += _IN_STYLE.findall(data)


def loads_from_elsewhere(site: Path) -> Iterator[str]:
    """``file: address`` for each script, style, font or picture that is not part of the site."""
    for path in sorted(site.rglob("*")):
        name = path.relative_to(site).as_posix()
        if path.suffix == ".html":
            page = _Loads()
            page.feed(path.read_text(encoding="utf-8"))
            yield from (f"{name}: {address}" for address in page.found)
        elif path.suffix == ".css":
            for address in _IN_STYLE.findall(path.read_text(encoding="utf-8")):
                yield f"{name}: {address}"


# Names of private modules, what Sphinx leaves of an annotation that it cannot parse, and values
# that are no expressions.
_PRINTED_PRIVATE = re.compile(
    r"~penstock[\w.]*|\bpenstock(?:\.\w+)*\._\w[\w.]*|\bdetail::\w*"
    r"|<(?:function|built-in|bound method) [^>]*>|<[\w.]+ object[^>]*>|<factory>"
)
# Pages about the project's parts name these.
_EXTENSION_MODULES = {"penstock._core", "penstock._record", "penstock._uring"}


class _Printed(HTMLParser):
    """What a reader sees: the text, and what appears under the pointer."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.titles += [value for name, value in attrs if name in ("title", "alt") and value]

    def handle_data(self, data: str) -> None:
        self.text += data


def private_names(site: Path) -> Iterator[str]:
    """``file: name`` for each private name that a page prints, once for each page."""
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        page = _Printed()
        page.feed(path.read_text(encoding="utf-8"))
        found = dict.fromkeys(_PRINTED_PRIVATE.findall("\n".join([page.text, *page.titles])))
        for private in found:
            shown = private.rstrip(".")
            if name.startswith("reference/") or shown not in _EXTENSION_MODULES:
                yield f"{name}: {shown}"


def missing_names(described: set[str], public: set[str]) -> list[str]:
    """Public names without an entry in the reference."""
    return sorted(public - described)


def foreign_names(described: set[str], public: set[str]) -> list[str]:
    """Entries of the reference that are neither public names nor their members."""
    return sorted(
        name
        for name in described - public
        if not any(name.startswith(f"{owner}.") for owner in public)
    )


_PRIVATE = re.compile(
    r"^namespace (?:\w+::)*detail \{$.*?^\} // namespace [\w:]*detail$", re.M | re.S
)
_DECLARED = re.compile(
    r"^(?:template <[^\n]*> )?(?:class|struct|enum class|using|concept) (?:\[\[\w+\]\] )?"
    r"(\w+)(?: final)?(?= :| \{| =)",
    re.M,
)


def names_in_headers(headers: Iterable[Path]) -> set[str]:
    """Types, aliases and concepts of namespaces, by the layout that clang-format gives headers.

    A second way to find them, which knows nothing of the compiler's.
    """
    found: set[str] = set()
    for path in headers:
        found |= set(_DECLARED.findall(_PRIVATE.sub("", path.read_text(encoding="utf-8"))))
    return found
