""":class:`UringError`, and what a kernel's refusal means."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, TypeVar, cast

Result = TypeVar("Result")

DISABLED = Path("/proc/sys/kernel/io_uring_disabled")


class UringError(OSError):
    """An operation or a ring failed; ``errno`` says why.

    Where Python has a class for the errno, the raised exception is of that class too: a missing
    file is a ``UringError`` and a ``FileNotFoundError``.
    """

    def __new__(cls, *arguments: Any) -> Self:
        kin = _SUBCLASSES.get(arguments[0]) if len(arguments) >= 2 and cls is UringError else None
        return cast(Self, super().__new__(kin or cls, *arguments))


_SUBCLASSES: dict[int, type[UringError]] = {}


def _define_subclasses() -> None:
    # OSError chooses among these classes by errno, but a subclass of it does not.
    for number in errno.errorcode:
        builtin = type(OSError(number, ""))
        if builtin is OSError:
            continue
        name = f"Uring{builtin.__name__}"
        kin = globals().get(name)
        if kin is None:
            text = f"A UringError that is a {builtin.__name__}."
            kin = type(name, (UringError, builtin), {"__doc__": text, "__module__": __name__})
            globals()[name] = kin
        _SUBCLASSES[number] = kin


_define_subclasses()


def check_result(result: Result, path: str | bytes | os.PathLike[Any] | None = None) -> Result:
    """Return a completion's result, unless it is a failure.

    Raises:
        UringError: for a negative errno; it names ``path``, if given.
    """
    if isinstance(result, int) and result < 0:
        number = -result
        if path is None:
            raise UringError(number, os.strerror(number))
        raise UringError(number, os.strerror(number), os.fspath(path))
    return result


@contextlib.contextmanager
def naming(path: str | bytes | os.PathLike[Any]) -> Iterator[None]:
    """Turn an OSError of the block into a UringError with ``path``, unless it has a path."""
    try:
        yield
    except UringError as error:
        if error.filename is not None:
            raise
        raise UringError(error.errno, error.strerror, os.fspath(path)) from error
    except OSError as error:
        raise UringError(error.errno, error.strerror, os.fspath(path)) from error


def explain_refusal(number: int) -> str:
    """Explain why the kernel refuses a ring, by the errno, and name the remedy."""
    try:
        disabled = DISABLED.read_text().strip()
    except OSError:
        disabled = ""
    if number in (errno.EPERM, errno.EACCES):
        if disabled in ("1", "2"):
            return (
                f"io_uring is disabled on this machine: kernel.io_uring_disabled is {disabled}; "
                "'sysctl kernel.io_uring_disabled=0' enables it"
            )
        return (
            "a sandbox forbids io_uring, as Docker's and Kubernetes' default seccomp profiles do; "
            "run with a profile that allows io_uring_setup, io_uring_enter and io_uring_register"
        )
    if number == errno.ENOSYS:
        return (
            "the kernel has no io_uring: it needs Linux 5.11 with CONFIG_IO_URING, and a sandbox "
            "such as gVisor may hide it"
        )
    if number == errno.ENOMEM:
        limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if limit == resource.RLIM_INFINITY:
            return "no memory for the ring; ask for fewer entries"
        return (
            f"no memory for the ring: RLIMIT_MEMLOCK is {limit} bytes for all rings and other "
            "locked memory of this user together; raise it (ulimit -l), close rings, or ask for "
            "fewer entries"
        )
    if number in (errno.EMFILE, errno.ENFILE):
        return "no descriptor is left for the ring; close some, or raise 'ulimit -n'"
    if number == errno.EINVAL:
        return "the kernel does not make a ring with these entries and flags; ask for fewer"
    return os.strerror(number)
