"""Extended attributes of files through a ring."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.uring import UringCtx, UringError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch()
    return path


def test_attributes_are_set_and_read_by_path(any_ctx: UringCtx, file: Path) -> None:
    assert any_ctx.run(any_ctx.prep_setxattr, file, "user.colour", b"deep blue") == 0
    assert os.getxattr(file, "user.colour") == b"deep blue"
    value = bytearray(20)
    assert any_ctx.run(any_ctx.prep_getxattr, str(file), "user.colour", value) == 9
    assert value[:9] == b"deep blue"
    value.clear()


def test_attributes_are_set_and_read_by_descriptor(any_ctx: UringCtx, file: Path) -> None:
    with file.open() as opened:
        any_ctx.run(any_ctx.prep_fsetxattr, opened, "user.size", bytearray(b"large"))
        value = bytearray(5)
        assert any_ctx.run(any_ctx.prep_fgetxattr, opened, "user.size", value) == 5
        assert value == b"large"
        # An empty buffer queries the length.
        assert any_ctx.run(any_ctx.prep_fgetxattr, opened, "user.size", bytearray()) == 5


def test_refusals_raise_errors(ctx: UringCtx, file: Path) -> None:
    with pytest.raises(UringError) as caught:
        ctx.run(ctx.prep_getxattr, file, "user.none", bytearray(5))
    assert caught.value.errno == errno.ENODATA
    ctx.run(ctx.prep_setxattr, file, "user.a", b"1", os.XATTR_CREATE)
    with pytest.raises(FileExistsError):
        ctx.run(ctx.prep_setxattr, file, "user.a", b"2", os.XATTR_CREATE)
    ctx.run(ctx.prep_setxattr, file, "user.a", b"long value", os.XATTR_REPLACE)
    with pytest.raises(UringError) as caught:
        ctx.run(ctx.prep_getxattr, file, "user.a", bytearray(2))
    assert caught.value.errno == errno.ERANGE
    with pytest.raises(BufferError, match="read-only"):
        ctx.prep_getxattr(file, "user.a", b"12345")
    with pytest.raises(ValueError, match="null byte"):
        ctx.prep_setxattr(file, "user.\0", b"")
