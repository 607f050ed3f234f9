"""Text files with alternating reads and writes behave like the built-in's, on every loop."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import files

Step = tuple[str, Any]
Call = tuple[str, tuple[Any, ...]]

# Without encodings that begin with a byte order mark: the built-in writes the mark at its first
# write, even in the middle of a file that it has read.
ENCODINGS = ["utf-8", "utf-16-le", "latin-1", "shift_jis"]
NEWLINES = [None, "", "\n", "\r", "\r\n"]
PIECES = st.lists(st.sampled_from(["a", "bc", "\r", "\n", "\r\n", "é", "あ"]), max_size=8)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 12)),
        st.tuples(st.just("readline"), st.just(-1) | st.integers(1, 9)),
        st.tuples(st.just("write"), PIECES.map("".join)),
        st.tuples(st.just("writelines"), PIECES),
        st.tuples(st.just("tell"), st.none()),
        st.tuples(st.just("back"), st.integers(0, 5)),
        st.tuples(st.just("here"), st.none()),
        st.tuples(st.just("end"), st.none()),
        st.tuples(st.just("flush"), st.none()),
        st.tuples(st.just("truncate"), st.integers(0, 30)),
        # The built-in truncates at the end of its read-ahead, which may be far beyond its position.
        st.tuples(st.just("cut here"), st.none()),
        st.tuples(
            st.just("reconfigure"),
            st.fixed_dictionaries(
                {},
                optional={
                    "encoding": st.sampled_from([None, *ENCODINGS]),
                    "errors": st.sampled_from([None, "strict", "replace", "ignore"]),
                    "newline": st.sampled_from(NEWLINES),
                    "line_buffering": st.sampled_from([None, False, True]),
                    "write_through": st.sampled_from([None, False, True]),
                },
            ),
        ),
    ),
    max_size=14,
)

FLUSHES_TOO_LATE = sys.version_info < (3, 13)
"""The built-in's ``BufferedRandom.read1`` ignores written data that are still buffered."""

KINDS = (UnicodeError, io.UnsupportedOperation, OSError, ValueError)


class ReturnedPositions:
    """The positions that a file has returned, and that later calls pass to it again."""

    def __init__(self) -> None:
        self.positions = [0]

    def calls(self, step: Step) -> list[Call]:
        name, argument = step
        if name == "back":
            return [("seek", (self.positions[argument % len(self.positions)],))]
        if name in ("here", "cut here"):
            cut: list[Call] = [("truncate", ())] if name == "cut here" else []
            return [("seek", (0, os.SEEK_CUR)), *cut]
        if name == "end":
            return [("seek", (0, os.SEEK_END))]
        flush: list[Call] = (
            [("flush", ())] if FLUSHES_TOO_LATE and name in ("read", "readline") else []
        )
        return [*flush, (name, () if name in ("tell", "flush") else (argument,))]

    def seen(self, step: Step, result: Any) -> Any:
        """Return the part of a result that both files must share: not the numbers of positions."""
        if step[0] == "tell":
            self.positions.append(result)
        return None if step[0] in ("tell", "back", "here", "cut here") else result


def call(file: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    if name == "reconfigure":
        return file.reconfigure(**arguments[0])
    return getattr(file, name)(*arguments)


SETTINGS = ("encoding", "errors", "line_buffering", "write_through")


def settings_of(file: Any) -> list[Any]:
    return [getattr(file, name) for name in SETTINGS]


def failure(error: Exception) -> str:
    return next(kind.__name__ for kind in KINDS if isinstance(error, kind))


def builtin_run(path: str, steps: list[Step], **options: Any) -> list[Any]:
    results: list[Any] = []
    known = ReturnedPositions()
    with open(path, **options) as file:
        for step in steps:
            try:
                for name, arguments in known.calls(step):
                    result = call(file, name, arguments)
                results.append(known.seen(step, result))
            except KINDS as error:
                results.append(failure(error))
                if isinstance(error, UnicodeError):
                    break  # undecodable: the positions may then differ
            results.append(settings_of(file))
    return results


async def our_run(path: str, steps: list[Step], options: dict[str, Any]) -> list[Any]:
    results: list[Any] = []
    known = ReturnedPositions()
    async with files.open(path, **options) as file:
        for step in steps:
            try:
                for name, arguments in known.calls(step):
                    result = await call(file, name, arguments)
                results.append(known.seen(step, result))
            except KINDS as error:
                results.append(failure(error))
                if isinstance(error, UnicodeError):
                    break  # undecodable: the positions may then differ
            results.append(settings_of(file))
    return results


@pytest.mark.parametrize("loop", ["asyncio", "penstock", "trio"])
def test_alternating_reads_and_writes_give_the_results_of_the_built_in(
    loop: str, run_on: Callable[..., Any]
) -> None:
    @settings(max_examples=150)
    @given(
        content=PIECES.map("".join),
        steps=STEPS,
        encoding=st.sampled_from(ENCODINGS),
        newline=st.sampled_from(NEWLINES),
        mode=st.sampled_from(["r+", "w+", "r", "w"]),
        buffering=st.sampled_from([-1, 1, 8]),
    )
    def run(
        content: str,
        steps: list[Step],
        encoding: str,
        newline: str | None,
        mode: str,
        buffering: int,
    ) -> None:
        options = {"mode": mode, "encoding": encoding, "newline": newline, "buffering": buffering}
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
            for path in (theirs, ours):
                Path(path).write_bytes(content.encode(encoding, "ignore"))
            expected = builtin_run(theirs, steps, **options)
            assert run_on(loop, our_run, ours, steps, options) == expected
            assert Path(ours).read_bytes() == Path(theirs).read_bytes()

    run()
