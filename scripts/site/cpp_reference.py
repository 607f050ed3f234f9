"""The pages of the C++ reference: every public declaration of include/penstock, with its comment.

libclang reads the headers as the compiler does. What is in a namespace ``detail`` or a folder
``detail`` is private: a class has the public members of its private bases, and a private type in a
signature is a comment with its name, as the exposition-only names of the C++ standard.
Rejected: Doxygen, which guesses at what C++23 declares.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from clang import cindex
from clang.cindex import AccessSpecifier, Cursor, CursorKind

FOLDER = "reference/cpp"
LIBRARY = "/usr/lib/llvm-19/lib/libclang-19.so.1"

# A page for each folder of headers; "" is include/penstock itself.
PAGES = {
    "": "Errors, the event loop, signals",
    "task": "Tasks, scopes, cancellation",
    "stream": "Streams",
    "bridge": "Bridges to callbacks and threads",
    "sync": "Synchronisation",
    "net": "Sockets",
    "tls": "TLS",
    "http": "HTTP",
    "http/filter": "HTTP: filters",
    "ws": "WebSocket",
    "fs": "Files",
    "process": "Processes",
    "serial": "Serial ports",
    "io": "The event loop of floor 1",
    "io/files": "The file engine",
    "codec": "Codecs: buffers",
    "codec/http": "Codecs: HTTP/1.1",
    "codec/http2": "Codecs: HTTP/2",
    "codec/websocket": "Codecs: WebSocket",
}

COLLECTIONS = {"penstock/penstock.hpp", "penstock/http.hpp", "penstock/ws.hpp"}
"""Headers that only include others."""

_TYPES = {
    CursorKind.CLASS_DECL,
    CursorKind.STRUCT_DECL,
    CursorKind.CLASS_TEMPLATE,
    CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION,
    CursorKind.UNION_DECL,
}
_OTHERS = {
    CursorKind.FUNCTION_DECL,
    CursorKind.FUNCTION_TEMPLATE,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
    CursorKind.FIELD_DECL,
    CursorKind.VAR_DECL,
    CursorKind.TYPEDEF_DECL,
    CursorKind.TYPE_ALIAS_DECL,
    CursorKind.TYPE_ALIAS_TEMPLATE_DECL,
    CursorKind.CONCEPT_DECL,
    CursorKind.ENUM_DECL,
}
# Their text is whole: initialisers and enumerators are part of the contract.
_WHOLE = {
    CursorKind.FIELD_DECL,
    CursorKind.VAR_DECL,
    CursorKind.TYPEDEF_DECL,
    CursorKind.TYPE_ALIAS_DECL,
    CursorKind.TYPE_ALIAS_TEMPLATE_DECL,
    CursorKind.CONCEPT_DECL,
    CursorKind.ENUM_DECL,
}

_ALIASES = {CursorKind.TYPE_ALIAS_DECL, CursorKind.TYPE_ALIAS_TEMPLATE_DECL}
_INHERITED = {CursorKind.CXX_METHOD, CursorKind.FUNCTION_TEMPLATE, *_ALIASES}


class Declaration(NamedTuple):
    """A public declaration of a header."""

    header: str
    name: str
    """With its namespaces and classes."""
    signature: str
    comment: str
    is_type: bool
    members: tuple[Declaration, ...]


class UnreadableHeaderError(Exception):
    """A header does not compile."""


def public_headers(include: Path) -> list[Path]:
    """Headers outside of folders named detail, without those that only include others."""
    return sorted(
        path
        for path in (include / "penstock").rglob("*.hpp")
        if "detail" not in path.parts and str(path.relative_to(include)) not in COLLECTIONS
    )


def signature_of(text: str) -> str:
    """A declaration's text without its body, initialisers of members and comments."""
    text = re.sub(r"//[^\n]*", "", text)
    depth, after_parameters = 0, False
    for place, character in enumerate(text):
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
            after_parameters = after_parameters or (depth == 0 and character == ")")
        elif depth == 0 and character in "{;":
            # ``requires requires(T t) { … }`` has a brace that is no body.
            if re.search(r"\brequires\s*(\([^()]*\)\s*)?$", text[:place]):
                continue
            text = text[:place]
            break
        elif (
            depth == 0
            and after_parameters
            and character == ":"
            and ":" not in (text[place - 1], text[place + 1 : place + 2])
        ):
            text = text[:place]
            break
    return "\n".join(line.rstrip() for line in text.strip().splitlines() if line.strip())


_PRIVATE_NAME = re.compile(r"(?:\btypename )?(?:\b\w+::)*\bdetail::(\w+)")


def without_private_names(text: str) -> str:
    """A declaration's text with private names as comments: ``/*StatusOperation*/ status()``."""
    return _PRIVATE_NAME.sub(r"/*\1*/", text)


def whole(text: str) -> str:
    """A declaration's text as it stands, its lines moved to the left together."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{textwrap.dedent(rest)}" if rest else first


def comment_of(raw: str | None) -> str:
    """A documentation comment as Markdown."""
    if not raw:
        return ""
    lines = []
    for line in raw.splitlines():
        lines.append(re.sub(r"^\s*(///?<?|\*/?|/\*\*)\s?", "", line))
    return "\n".join(lines).strip()


def _is_private(cursor: Cursor) -> bool:
    """Whether a declaration is in a namespace ``detail``."""
    parent = cursor.semantic_parent
    while parent is not None:
        if parent.kind == CursorKind.NAMESPACE and parent.spelling == "detail":
            return True
        parent = parent.semantic_parent
    return False


_REFERENCES = {CursorKind.TEMPLATE_REF, CursorKind.TYPE_REF}


def _bases(cursor: Cursor) -> list[Cursor]:
    return [child for child in cursor.get_children() if child.kind == CursorKind.CXX_BASE_SPECIFIER]


def _referenced(cursor: Cursor) -> list[Cursor]:
    """The types that a base clause names, in its order."""
    found = (child.referenced for child in cursor.walk_preorder() if child.kind in _REFERENCES)
    return [each.get_definition() or each for each in found if each is not None]


def private_bases(cursor: Cursor) -> list[Cursor]:
    """The definitions of a type's bases in ``detail``: of ``Readable<C, Writable<C>>`` both.

    A template whose base is one of its parameters adds to that one, or to its default.
    """
    found: list[Cursor] = []
    for base in _bases(cursor):
        if base.access_specifier != AccessSpecifier.PUBLIC:
            continue
        named = _referenced(base)
        chain = [each for each in named if each.kind == CursorKind.CLASS_TEMPLATE] or named[:1]
        for place, each in enumerate(chain):
            if each.kind not in _TYPES or not _is_private(each):
                break
            found.append(each)
            parameters = [
                parameter
                for inner in _bases(each)
                for parameter in _referenced(inner)
                if parameter.kind == CursorKind.TEMPLATE_TYPE_PARAMETER
            ]
            if not parameters:
                found += private_bases(each)
                break
            if place == len(chain) - 1:
                found += [
                    default
                    for default in _referenced(parameters[0])
                    if default.kind in _TYPES and _is_private(default)
                ]
    return found


class _Reader:
    def __init__(self, include: Path) -> None:
        self._include = include
        self._sources: dict[str, bytes] = {}
        self._seen: set[tuple[str, str, int]] = set()

    def text(self, cursor: Cursor) -> str:
        name = cursor.location.file.name
        source = self._sources.setdefault(name, Path(name).read_bytes())
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        # ``[[nodiscard]]`` and a template's head are part of the declaration.
        return source[start:end].decode()

    def _signature(self, cursor: Cursor) -> str:
        text = self.text(cursor)
        bases = _bases(cursor)
        if not bases:
            return whole(text) if cursor.kind in _WHOLE else signature_of(text)
        begin = cursor.extent.start.offset
        head = text.encode()[: bases[0].extent.start.offset - begin].decode().rstrip().rstrip(":")
        shown = [
            self.text(base)
            for base in bases
            if base.access_specifier == AccessSpecifier.PUBLIC and "detail::" not in self.text(base)
        ]
        return signature_of(head.rstrip() + (" : " + ", ".join(shown) if shown else ""))

    def _inherited(self, cursor: Cursor, scope: str) -> Iterator[Declaration]:
        """Public functions and aliases of private bases, without what only the compiler calls."""
        for base in private_bases(cursor):
            for member in base.get_children():
                if member.kind not in _INHERITED:
                    continue
                header = str(Path(member.location.file.name).relative_to(self._include))
                if member.spelling.startswith(("operator", "await_")):
                    continue
                for each in self._declaration(member, header, scope, in_type=True):
                    # An alias within ``detail`` names private types without ``detail::``.
                    alias = re.sub(r"^((?:.*\n)?.*using \w+ = )(.+)$", r"\1/*\2*/", each.signature)
                    yield each._replace(signature=alias)

    def declarations(
        self, parent: Cursor, scope: str, *, in_type: bool = False
    ) -> Iterator[Declaration]:
        for cursor in parent.get_children():
            place = cursor.location.file
            if place is None or not place.name.startswith(f"{self._include}/penstock/"):
                continue
            header = str(Path(place.name).relative_to(self._include))
            if cursor.kind == CursorKind.NAMESPACE:
                if cursor.spelling not in ("", "detail"):
                    inner = f"{scope}::{cursor.spelling}" if scope else cursor.spelling
                    yield from self.declarations(cursor, inner)
                continue
            if "/detail/" in header or header in COLLECTIONS:
                continue
            yield from self._declaration(cursor, header, scope, in_type)

    def _declaration(
        self, cursor: Cursor, header: str, scope: str, in_type: bool
    ) -> Iterator[Declaration]:
        is_type = cursor.kind in _TYPES
        if not is_type and cursor.kind not in _OTHERS:
            return
        if cursor.access_specifier in (AccessSpecifier.PRIVATE, AccessSpecifier.PROTECTED):
            return
        if is_type and not cursor.is_definition() and not in_type:
            return  # named ahead of its definition
        # A member that is defined below its class is described inside of it.
        if not in_type and cursor.semantic_parent != cursor.lexical_parent:
            return
        name = cursor.spelling or cursor.displayname
        if not name or "(unnamed" in name or "(anonymous" in name or name == "promise_type":
            return
        key = (scope, header, cursor.extent.start.offset)
        if key in self._seen:
            return
        self._seen.add(key)
        full = f"{scope}::{name.partition('<')[0] if is_type else name}"
        signature = without_private_names(self._signature(cursor))
        if signature.endswith("= delete"):
            return
        members: tuple[Declaration, ...] = ()
        if is_type:
            own = self.declarations(cursor, full, in_type=True)
            members = (*own, *self._inherited(cursor, full))
        yield Declaration(header, full, signature, comment_of(cursor.raw_comment), is_type, members)


def declarations(root: Path, headers: list[Path] | None = None) -> list[Declaration]:
    """Every public declaration of a namespace, in the order of the headers."""
    if not cindex.Config.loaded:
        cindex.Config.set_library_file(LIBRARY)
    include = root / "include"
    names = public_headers(include) if headers is None else headers
    source = "".join(f"#include <{path.relative_to(include)}>\n" for path in names)
    unit = cindex.Index.create().parse(
        "reference.cpp",
        args=["-std=c++23", f"-I{include}"],
        unsaved_files=[("reference.cpp", source)],
        options=cindex.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES,
    )
    errors = [each for each in unit.diagnostics if each.severity >= cindex.Diagnostic.Error]
    if errors:
        raise UnreadableHeaderError("; ".join(map(str, errors[:5])))
    return list(_Reader(include).declarations(unit.cursor, ""))


def _code(declaration: Declaration) -> str:
    """A declaration as code; a type with its public members and their comments."""
    if not declaration.is_type:
        return f"{declaration.signature};"
    lines = [f"{declaration.signature} {{"]
    for member in declaration.members:
        if member.comment:
            lines += [f"    // {line}".rstrip() for line in member.comment.splitlines()]
        lines += [f"    {line}".rstrip() for line in _code(member).splitlines()]
    return "\n".join([*lines, "};"])


def _section(declaration: Declaration) -> Iterator[str]:
    yield f"### `{declaration.name.removeprefix('penstock::')}`\n"
    if declaration.comment:
        yield declaration.comment + "\n"
    yield f"```cpp\n{_code(declaration)}\n```\n"


def write(root: Path, target: Path) -> list[Declaration]:
    """Write a page for each folder of headers, and their index; return what is on them."""
    found = declarations(root)
    folder = target / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    index = [
        "# C++ reference",
        "",
        "Every public declaration of the headers, with its comment. A name in a comment, such as"
        " `/*ReadOperation*/`, stands for a private type: `auto` holds such a value, and `co_await`"
        " of an operation gives what the text says.",
        "",
    ]
    places = []
    by_header: dict[str, list[Declaration]] = {}
    for declaration in found:
        by_header.setdefault(declaration.header, []).append(declaration)
    for part, title in PAGES.items():
        home = Path("penstock", part)
        headers = [header for header in sorted(by_header) if Path(header).parent == home]
        if not headers:
            continue
        lines = [f"# {title}", ""]
        for header in headers:
            lines += [f"## `<{header}>`", ""]
            for declaration in by_header.pop(header):
                lines += _section(declaration)
        place = part.replace("/", "-") or "penstock"
        (folder / f"{place}.md").write_text("\n".join(lines), encoding="utf-8")
        places.append(place)
        index.append(f"- [{title}]({place}.md): " + ", ".join(f"`{Path(h).stem}`" for h in headers))
    if by_header:
        raise UnreadableHeaderError(
            f"{', '.join(by_header)}: PAGES in cpp_reference.py has no page for this folder"
        )
    index += ["", "```{toctree}", ":hidden:", "", *places, "```", ""]
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")
    return found
