"""What add_reader and its relatives take as a descriptor, and that a wrong one costs nothing."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from .resident_memory import measures_memory, resident_bytes
from .socket_pairs import Pair


class FileNo:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def fileno(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class OnlyInt:
    def __init__(self, number: int) -> None:
        self.number = number

    def __int__(self) -> int:
        return self.number


def mock_of(number: int) -> MagicMock:
    mock = MagicMock()
    mock.__int__.return_value = number
    return mock


# Each makes something of an open descriptor's number that names the same descriptor.
SAME: dict[str, Callable[[int], Any]] = {
    "int": lambda number: number,
    "fileno": FileNo,
    "fileno of __int__": lambda number: FileNo(OnlyInt(number)),
    "fileno of a float": lambda number: FileNo(number + 0.5),
    "fileno of digits": lambda number: FileNo(str(number)),
    "fileno of a mock": lambda number: FileNo(mock_of(number)),
}

# Each raises this from add_reader, and from remove_reader the second.
WRONG: dict[str, tuple[Any, type[BaseException], type[BaseException] | None]] = {
    "too large": (2**40, OverflowError, None),
    "very large": (2**80, OverflowError, None),
    "fileno too large": (FileNo(2**40), OverflowError, None),
    "not open": (2**31 - 1, OSError, None),
    "negative": (-1, ValueError, ValueError),
    "very negative": (-(2**80), ValueError, ValueError),
    "fileno negative": (FileNo(-1), ValueError, ValueError),
    "str": ("text", ValueError, ValueError),
    "float": (1.5, ValueError, ValueError),
    "fileno of text": (FileNo("text"), ValueError, ValueError),
    "fileno of None": (FileNo(None), ValueError, ValueError),
    "fileno raises ValueError": (FileNo(ValueError("closed")), ValueError, ValueError),
    "fileno raises OSError": (FileNo(OSError("gone")), OSError, OSError),
    "fileno raises KeyError": (FileNo(KeyError("gone")), KeyError, KeyError),
}


@pytest.mark.parametrize("form", SAME)
def test_whatever_int_makes_a_number_of_names_a_descriptor(
    loop: asyncio.AbstractEventLoop, pair: Pair, form: str
) -> None:
    left, right = pair
    calls: list[str] = []
    right.send(b"x")
    loop.add_reader(SAME[form](left.fileno()), lambda: (calls.append("reader"), loop.stop()))
    loop.run_forever()
    assert calls == ["reader"]
    assert loop.remove_reader(SAME[form](left.fileno())) is True
    assert loop.remove_reader(left.fileno()) is False


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("direction", ["reader", "writer"])
def test_a_wrong_descriptor_has_the_error_of_asyncio(
    loop: asyncio.AbstractEventLoop, wrong: str, direction: str
) -> None:
    given, when_added, when_removed = WRONG[wrong]
    with pytest.raises(when_added):
        getattr(loop, f"add_{direction}")(given, print)
    remove = getattr(loop, f"remove_{direction}")
    if when_removed is None:
        assert remove(given) is False
    else:
        with pytest.raises(when_removed):
            remove(given)


@measures_memory
@pytest.mark.parametrize("number", [2**20, 2**25, 2**27, 2**31 - 1])
def test_a_number_that_is_not_open_costs_no_memory(
    loop: asyncio.AbstractEventLoop, number: int
) -> None:
    before = resident_bytes()
    for add in (loop.add_reader, loop.add_writer):
        with pytest.raises(OSError) as raised:
            add(number, print)
        assert raised.value.errno == errno.EBADF
    assert resident_bytes() - before < 2**20


@measures_memory
@pytest.mark.usefixtures("only_penstock")
def test_the_tables_do_not_grow_beyond_the_limit_of_open_files(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = min(limit, 2**20) - 1
    number = fcntl.fcntl(left.fileno(), fcntl.F_DUPFD_CLOEXEC, highest)
    try:
        before = resident_bytes()
        right.send(b"x")
        loop.add_reader(number, loop.stop)
        loop.run_forever()
        assert loop.remove_reader(number) is True
        # 24 and 8 bytes for each number.
        assert resident_bytes() - before < 2 * 32 * (highest + 1) + 2**20
    finally:
        os.close(number)
