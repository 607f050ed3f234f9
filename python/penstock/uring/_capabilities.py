"""What io_uring offers to this process: :func:`probe`."""

from __future__ import annotations

import errno
import functools
import os
from dataclasses import dataclass

from penstock.uring import _native, constants
from penstock.uring._errors import UringError, explain_refusal


@dataclass(frozen=True)
class Capabilities:
    """What :func:`probe` found.

    Attributes:
        available: whether a ring of the default size can be made.
        reason: one sentence: which kernel, or why there is no ring and what helps.
        operations: names of the operations that the kernel knows, such as ``"read"``.
        features: the kernel's ``IORING_FEAT_*`` bits.
        setup_flags: those ``IORING_SETUP_*`` bits, of the ones that rings here use, that the kernel
            accepts.
    """

    available: bool
    reason: str
    operations: frozenset[str] = frozenset()
    features: int = 0
    setup_flags: int = 0

    def supports(self, operation: str) -> bool:
        """Whether the kernel knows an operation.

        Raises:
            ValueError: if there is no operation of this name.
        """
        if operation not in constants.OPCODE:
            raise ValueError(
                f"there is no operation {operation!r}; names are those of io_uring's opcodes in "
                "lower case, such as 'read' or 'send_zc'"
            )
        return operation in self.operations

    @property
    def sqpoll(self) -> bool:
        """Whether a kernel thread can submit."""
        return bool(self.setup_flags & constants.SETUP_SQPOLL)

    @property
    def defer_taskrun(self) -> bool:
        """Whether completions can be deferred until the program asks for them (fastest)."""
        return bool(self.setup_flags & constants.SETUP_DEFER_TASKRUN)


def probe() -> Capabilities:
    """Detect by trying what io_uring can do here; never raises.

    The kernel's version is not a guide: distributions add and remove features, and containers
    forbid the system calls. Takes about a millisecond. The result holds for this process, unless a
    seccomp filter or ``kernel.io_uring_disabled`` changes.
    """
    if not _native.built:
        return Capabilities(False, _native.NOT_BUILT)
    found = _native.probe_kernel()
    if found["error"]:
        return Capabilities(False, explain_refusal(found["error"]))
    known = frozenset(
        name for name, known in zip(constants.OPCODES, found["opcodes"], strict=False) if known
    )
    uname = os.uname()
    return Capabilities(
        available=True,
        reason=f"io_uring of {uname.sysname} {uname.release} with {len(known)} operations",
        operations=known,
        features=found["features"],
        setup_flags=found["setup_flags"],
    )


_probe_once = functools.cache(probe)


def require(operation: str) -> None:
    """Raise UringError (EOPNOTSUPP) if the kernel lacks an operation; probes once."""
    found = _probe_once()
    if found.available and not found.supports(operation):
        since = constants.SINCE.get(operation)
        raise UringError(
            errno.EOPNOTSUPP,
            f"this kernel's io_uring has no {operation}"
            + (f"; Linux {since} is the first that has it" if since else ""),
        )
