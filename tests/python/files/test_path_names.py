"""The names of ``files.Path``: those of ``pathlib.PurePosixPath``."""

from __future__ import annotations

import copy
import operator
import os
import pickle
import sys
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("penstock._core")

from penstock import files

TEXT = st.text("a.b/-~ *é", max_size=12)
PROPERTIES = (
    "parts",
    "drive",
    "root",
    "anchor",
    "name",
    "suffix",
    "suffixes",
    "stem",
    "parent",
    "parents",
)


def _plain(value: Any) -> Any:
    if isinstance(value, (files.Path, PurePath)):
        return "path", str(value)
    if isinstance(value, (tuple, list)) or type(value).__name__ == "_PathParents":
        return [_plain(each) for each in value]
    return value


def _both(ours: Any, theirs: Any, method: str, *arguments: Any, **keywords: Any) -> None:
    outcomes = []
    for path in (ours, theirs):
        try:
            outcomes.append(_plain(getattr(path, method)(*arguments, **keywords)))
        except (ValueError, TypeError) as error:
            outcomes.append(type(error))
    assert outcomes[0] == outcomes[1], (method, arguments, keywords)


@given(TEXT, TEXT)
def test_names_are_those_of_pathlib(one: str, two: str) -> None:
    ours, theirs = files.Path(one, two), Path(one, two)
    for name in PROPERTIES:
        assert _plain(getattr(ours, name)) == _plain(getattr(theirs, name)), name
    assert (str(ours), bytes(ours), os.fspath(ours)) == (str(theirs), bytes(theirs), str(theirs))
    for method in ("as_posix", "as_uri", "is_absolute"):
        _both(ours, theirs, method)
    for method in ("with_name", "with_stem", "with_suffix", "joinpath", "is_relative_to"):
        _both(ours, theirs, method, two)
    _both(ours, theirs, "match", two or "*")
    _both(ours, theirs, "relative_to", one)
    if sys.version_info >= (3, 12):
        _both(ours, theirs, "relative_to", two, walk_up=True)
    if sys.version_info >= (3, 13):
        _both(ours, theirs, "full_match", two)
    assert _plain(ours / two) == _plain(theirs / two)
    assert _plain(two / ours) == _plain(two / theirs)


@given(TEXT, TEXT)
def test_comparisons_are_those_of_pathlib(one: str, two: str) -> None:
    for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        expected = compare(Path(one), Path(two))
        assert compare(files.Path(one), files.Path(two)) == expected
        assert compare(files.Path(one), Path(two)) == expected
    assert (hash(files.Path(one)) == hash(files.Path(two))) == (Path(one) == Path(two))


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/b.py", "a/*.py", True),
        ("a/b/c.py", "a/*.py", False),
        ("a/b/c.py", "a/**/*.py", True),
        ("a/c.py", "a/**/*.py", True),
        ("a/b/c.py", "**", True),
        ("a/b.py", "*.py", False),
        ("a/b.py", "**/*.py", True),
        ("a", "a/**", False),
        ("/a/b", "/a/?", True),
        ("a/b", "a?b", False),
        ("a/b", "a[!x]b", True),  # as pathlib has it
        ("a.py", "A.PY", False),
        (".x/y", "*/y", True),
        ("a+b", "a+b", True),
        ("a/[x]", "a/[[]x]", True),
    ],
)
def test_a_full_match_is_that_of_the_newest_pathlib(
    path: str, pattern: str, expected: bool
) -> None:
    assert files.Path(path).full_match(pattern) is expected
    if sys.version_info >= (3, 13):
        assert PurePosixPath(path).full_match(pattern) is expected


def test_a_full_match_may_ignore_case() -> None:
    assert files.Path("a.PY").full_match("A.py", case_sensitive=False)


@pytest.mark.parametrize(
    ("path", "base", "expected"),
    [("/a/b", "/a/c/d", "../../b"), ("a", "b", "../a"), ("/a", "/a", "."), ("/", "/a", "..")],
)
def test_a_relative_path_may_walk_up(path: str, base: str, expected: str) -> None:
    assert str(files.Path(path).relative_to(base, walk_up=True)) == expected
    if sys.version_info >= (3, 12):
        assert str(PurePosixPath(path).relative_to(base, walk_up=True)) == expected


@pytest.mark.parametrize("uri", ["file:/a%20b", "file:///a", "file://localhost/a", "file:/%ff"])
def test_a_uri_is_read(uri: str) -> None:
    path = files.Path.from_uri(uri)
    if sys.version_info >= (3, 14):
        assert path == Path.from_uri(uri)
    assert path.is_absolute()


@pytest.mark.parametrize("uri", ["http://a", "file:a", "file://else/a"])
def test_another_uri_is_refused_with_the_reason(uri: str) -> None:
    with pytest.raises(ValueError, match="URI"):
        files.Path.from_uri(uri)


def test_a_subclass_makes_paths_of_its_own_kind() -> None:
    class Marked(files.Path):
        def __init__(self, *segments: Any, mark: str = "none") -> None:
            super().__init__(*segments)
            self.mark = mark

        def with_segments(self, *segments: Any) -> Marked:
            return type(self)(*segments, mark=self.mark)

    path = Marked("a/b", mark="own")
    for derived in (path.parent, path / "c", "c" / path, path.with_name("x"), path.parents[0]):
        assert isinstance(derived, Marked)
        assert derived.mark == "own"


def test_it_is_a_value() -> None:
    path = files.Path("a", "b")
    assert copy.deepcopy(path) == path
    assert pickle.loads(pickle.dumps(path)) == path
    assert repr(path) == "Path('a/b')"
    assert {path: 1}[Path("a/b")] == 1  # type: ignore[index]
    assert not isinstance(path, PurePath)
    assert isinstance(path, os.PathLike)
    with pytest.raises(TypeError):
        files.Path(b"a")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        path / 3  # type: ignore[operator]
