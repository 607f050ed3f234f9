"""The names of a path, without the file system: :class:`Names`."""

from __future__ import annotations

import fnmatch
import os
import pathlib
import posixpath
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from typing import Self

# The versions of pathlib differ; typed so that a type checker sees the code for all of them.
PYTHON: tuple[int, ...] = sys.version_info[:2]

StrPath = str | os.PathLike[str]


def fold(case_sensitive: bool | None) -> dict[str, Any]:
    """Return the argument for pathlib, which has it from Python 3.12 on."""
    if PYTHON >= (3, 12):
        return {"case_sensitive": case_sensitive}
    if case_sensitive is False:
        raise NotImplementedError("case_sensitive=False needs Python 3.12; fold the names")
    return {}


class Names:
    """The operations of ``pathlib.PurePosixPath``, which make no system call and are not awaited.

    Those that newer versions of Python have added are here on every version.
    """

    __slots__ = ("_path",)

    _path: pathlib.Path

    parser: ModuleType = posixpath
    """The module with the rules of paths, ``posixpath``."""

    def __init__(self, *segments: StrPath) -> None:
        """Join the segments; without one, it is the current folder."""
        self._path = pathlib.Path(*segments)

    @classmethod
    def from_uri(cls, uri: str) -> Self:
        """Return the path of a ``file:`` URI.

        Raises:
            ValueError: if it is not such a URI, names another host, or is not absolute.
        """
        if not uri.startswith("file:"):
            raise ValueError(f"URI {uri!r} does not begin with 'file:'")
        path = os.fsdecode(unquote_to_bytes(uri[len("file:") :]))
        if path.startswith("//"):
            host, slash, rest = path[2:].partition("/")
            if host not in ("", "localhost"):
                raise ValueError(f"URI {uri!r} is of the host {host!r}, not of this one")
            path = slash + rest
        if not path.startswith("/"):
            raise ValueError(f"URI {uri!r} is not absolute; it has no '/' after 'file:'")
        return cls(path)

    def with_segments(self, *segments: StrPath) -> Self:
        """Make a path of the same class; all others that derive from this one come from here."""
        return type(self)(*segments)

    _as_usual = True

    def __init_subclass__(cls) -> None:
        """Note whether a subclass has a say in how its paths are made."""
        super().__init_subclass__()
        cls._as_usual = cls.__init__ is Names.__init__ and cls.with_segments is Names.with_segments

    def _derived(self, path: pathlib.Path) -> Self:
        """Make a path of the same class; without parsing it again, if the class allows."""
        if not self._as_usual:
            return self.with_segments(path)
        made = object.__new__(type(self))
        made._path = path
        return made

    def __fspath__(self) -> str:
        return str(self._path)

    def __str__(self) -> str:
        return str(self._path)

    def __bytes__(self) -> bytes:
        return bytes(self._path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self._path),)

    def __hash__(self) -> int:
        return hash(self._path)

    def __eq__(self, other: object) -> bool:
        equal: bool = self._path == _path_of(other)
        return equal

    def __lt__(self, other: Names | pathlib.PurePath) -> bool:
        return self._path.__lt__(_path_of(other))

    def __le__(self, other: Names | pathlib.PurePath) -> bool:
        return self._path.__le__(_path_of(other))

    def __gt__(self, other: Names | pathlib.PurePath) -> bool:
        return self._path.__gt__(_path_of(other))

    def __ge__(self, other: Names | pathlib.PurePath) -> bool:
        return self._path.__ge__(_path_of(other))

    def __truediv__(self, other: StrPath) -> Self:
        try:
            return self._derived(self._path / other)
        except TypeError:
            return NotImplemented

    def __rtruediv__(self, other: StrPath) -> Self:
        try:
            return self._derived(other / self._path)
        except TypeError:
            return NotImplemented

    @property
    def parts(self) -> tuple[str, ...]:
        """The components of the path."""
        return self._path.parts

    @property
    def drive(self) -> str:
        """Empty: only Windows has drives."""
        return self._path.drive

    @property
    def root(self) -> str:
        """The slash that an absolute path begins with, or empty."""
        return self._path.root

    @property
    def anchor(self) -> str:
        """The same as ``root``."""
        return self._path.anchor

    @property
    def parent(self) -> Self:
        """The path without its last component."""
        return self._derived(self._path.parent)

    @property
    def parents(self) -> Sequence[Self]:
        """The folders above, the nearest one first."""
        return tuple(self._derived(each) for each in self._path.parents)

    @property
    def name(self) -> str:
        """The last component; empty for the root."""
        return self._path.name

    @property
    def suffix(self) -> str:
        """What follows the last dot of the name, with the dot."""
        return self._path.suffix

    @property
    def suffixes(self) -> list[str]:
        """All suffixes of the name: ``[".tar", ".gz"]``."""
        return self._path.suffixes

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return self._path.stem

    def as_posix(self) -> str:
        """The path with slashes, as ``str`` gives it."""
        return self._path.as_posix()

    def as_uri(self) -> str:
        """The ``file:`` URI of an absolute path; ValueError for another."""
        return self._path.as_uri()

    def is_absolute(self) -> bool:
        """Whether it begins at the root."""
        return self._path.is_absolute()

    def is_reserved(self) -> bool:
        """False: only Windows reserves names."""
        return False

    def is_relative_to(self, other: StrPath, *more: StrPath) -> bool:
        """Whether ``other`` is this path, or above it by its names."""
        base = pathlib.Path(other, *more)
        return base == self._path or base in self._path.parents

    def relative_to(self, other: StrPath, *more: StrPath, walk_up: bool = False) -> Self:
        """Return the path from ``other`` to here; with ``walk_up`` also by way of ``..``.

        Raises:
            ValueError: if there is none.
        """
        base = pathlib.Path(other, *more)
        for steps, above in enumerate([base, *base.parents]):
            if above == self._path or above in self._path.parents:
                return self.with_segments(*[".."] * steps, *self._path.parts[len(above.parts) :])
            if not walk_up:
                raise ValueError(f"{str(self)!r} is not in the subpath of {str(base)!r}")
            if above.name == "..":
                raise ValueError(f"'..' segment in {str(base)!r} cannot be walked")
        raise ValueError(f"{str(self)!r} and {str(base)!r} have different anchors")

    def joinpath(self, *segments: StrPath) -> Self:
        """Return this path and the segments, joined."""
        return self.with_segments(self._path, *segments)

    def with_name(self, name: str) -> Self:
        """Return the path with another last component; ValueError if that is not a name."""
        return self._derived(self._path.with_name(name))

    def with_stem(self, stem: str) -> Self:
        """Return the path with another name before its suffix."""
        return self._derived(self._path.with_stem(stem))

    def with_suffix(self, suffix: str) -> Self:
        """Return the path with another suffix, or with none if it is empty."""
        return self._derived(self._path.with_suffix(suffix))

    def match(self, pattern: str, *, case_sensitive: bool | None = None) -> bool:
        """Whether the end of the path, or all of it, matches the pattern, without ``**``."""
        return self._path.match(str(pattern), **fold(case_sensitive))

    def full_match(self, pattern: StrPath, *, case_sensitive: bool | None = None) -> bool:
        """Whether all of the path matches the pattern; ``**`` is any number of folders."""
        if sys.version_info >= (3, 13):
            return self._path.full_match(os.fspath(pattern), case_sensitive=case_sensitive)
        text = str(pathlib.PurePath(pattern))
        own = "" if str(self._path) == "." else str(self._path)
        expression = _expression("" if text == "." else text, case_sensitive is not False)
        return expression.fullmatch(own) is not None


def _path_of(other: object) -> Any:
    return other._path if isinstance(other, Names) else other


@lru_cache(256)
def _expression(pattern: str, case_sensitive: bool) -> re.Pattern[str]:
    """Translate a pattern, whose ``**`` is any number of components."""
    text = ""
    parts = pattern.split("/")
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            text += ".*" if last else "(?:.+/)?"
            continue
        if part == "*":
            text += "[^/]+"
        else:
            one = fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z")
            text += "".join(_within_a_name(one))
        if not last:
            text += "/"
    return re.compile(f"(?s:{text})", 0 if case_sensitive else re.IGNORECASE)


def _within_a_name(expression: str) -> list[str]:
    """Let the wildcards of a translated pattern, ``.`` and ``.*``, match no slash."""
    pieces = re.findall(r"\[(?:\\.|[^\]])*\]|\\.|.", expression, re.S)
    return ["[^/]" if piece == "." else piece for piece in pieces]
