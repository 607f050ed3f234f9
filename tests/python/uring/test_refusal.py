"""Without io_uring in the kernel or the build, imports work and errors state the reason."""

from __future__ import annotations

import errno
import pickle

import pytest

from penstock.uring import Capabilities, UringError, check_result, probe
from penstock.uring._errors import explain_refusal
from tests.python.uring.conftest import run_python

REFUSE = """
import ctypes, struct

def refuse(number):
    # A seccomp filter like a container's: io_uring_setup(2), 425 everywhere, fails.
    libc = ctypes.CDLL(None, use_errno=True)
    program = b"".join(struct.pack("=HBBI", *each) for each in (
        (0x20, 0, 0, 0),                    # load the system call's number
        (0x15, 0, 1, 425),
        (0x06, 0, 0, 0x00050000 | number),  # errno
        (0x06, 0, 0, 0x7FFF0000),           # allow
    ))
    code = ctypes.create_string_buffer(program, len(program))
    filter = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    assert libc.prctl(38, 1, 0, 0, 0) == 0   # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP
"""


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EPERM, "a sandbox forbids io_uring, as Docker's"),
        (errno.ENOSYS, "the kernel has no io_uring"),
        (errno.ENOMEM, "RLIMIT_MEMLOCK"),
    ],
)
def test_a_refusal_by_the_kernel_is_explained(number: int, words: str) -> None:
    program = f"""{REFUSE}
refuse({number})
from penstock import uring
found = uring.probe()
assert not found.available and not found.supports("read")
try:
    uring.UringCtx()
except uring.UringError as error:
    assert error.errno == {number}, error.errno
    assert error.strerror == found.reason
    print(found.reason)
try:
    uring.read_many(["/proc/self/stat"])
except uring.UringError as error:
    assert error.errno == {number}
"""
    assert words in run_python(program)


@pytest.mark.parametrize("limit", [0, 8192, 65536, 1 << 20])
def test_the_probe_agrees_with_the_limit_of_locked_memory(limit: int) -> None:
    program = f"""
import os, resource
from penstock import uring
resource.setrlimit(resource.RLIMIT_MEMLOCK, ({limit}, {limit}))
if os.getuid() == 0:  # not subject to the limit
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for _ in range(3):  # the kernel unlocks a closed ring's memory a little later
    found = uring.probe()
    try:
        with uring.UringCtx() as ctx:
            ctx.prep_nop(1)
            assert ctx.wait_completions() == [(1, 0, 0)]
    except uring.UringError as error:
        assert not found.available, found
        assert error.strerror == found.reason
        assert "RLIMIT_MEMLOCK is {limit} bytes" in found.reason, found.reason
    else:
        assert found.available, found
        assert found.defer_taskrun == {probe().defer_taskrun}
if {limit} >= 65536:
    assert found.available, found.reason
"""
    run_python(program)


def test_a_build_without_liburing_imports_and_states_the_reason() -> None:
    program = """
import sys
sys.modules["penstock._uring"] = None
from penstock import uring
assert not uring.probe().available
print(uring.probe().reason)
for make in (uring.UringCtx, lambda: uring.BufferPool(1, 1), lambda: uring.read_many(["x"])):
    try:
        make()
    except uring.UringError as error:
        assert error.strerror == uring.probe().reason
    else:
        raise AssertionError(make)
"""
    assert "built without liburing; install it" in run_python(program)


def test_importing_needs_no_event_loop() -> None:
    program = """
import sys
import penstock.uring
assert "asyncio" not in sys.modules
"""
    run_python(program)


def test_an_error_names_the_sysctl_that_disables_io_uring(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    from pathlib import Path

    from penstock.uring import _errors

    switch = Path(str(tmp_path)) / "io_uring_disabled"
    switch.write_text("2\n")
    monkeypatch.setattr(_errors, "DISABLED", switch)
    assert "kernel.io_uring_disabled is 2" in explain_refusal(errno.EPERM)
    switch.write_text("0\n")
    assert "sandbox" in explain_refusal(errno.EPERM)


def test_the_probe_reports_supported_operations() -> None:
    found = probe()
    assert isinstance(found, Capabilities)
    assert found.available
    assert found.supports("read")
    with pytest.raises(ValueError, match="no operation 'raed'"):
        found.supports("raed")


def test_errors_are_also_the_matching_subclasses_of_oserror() -> None:
    error = UringError(errno.ENOENT, "No such file or directory", "name")
    assert isinstance(error, FileNotFoundError)
    assert (error.errno, error.filename) == (errno.ENOENT, "name")
    assert isinstance(UringError(errno.EACCES, "x"), PermissionError)
    assert isinstance(UringError(errno.EBUSY, "x"), UringError)
    assert type(UringError(errno.EBUSY, "x")) is UringError
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_results_are_checked() -> None:
    assert check_result(5) == 5
    assert check_result(b"data") == b"data"
    with pytest.raises(UringError, match="Bad file descriptor"):
        check_result(-errno.EBADF)
    with pytest.raises(FileNotFoundError, match="'here'"):
        check_result(-errno.ENOENT, "here")
