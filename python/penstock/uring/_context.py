"""The ring: :class:`UringCtx`."""

from __future__ import annotations

import errno

from penstock.uring import _native, constants
from penstock.uring._errors import UringError, explain_refusal
from penstock.uring._operations.control import ControlOperations
from penstock.uring._operations.extended_attributes import ExtendedAttributes
from penstock.uring._operations.files import FileOperations
from penstock.uring._operations.processes import ProcessOperations
from penstock.uring._operations.single import SingleOperations
from penstock.uring._operations.sockets import SocketOperations

MOST_ENTRIES = 1 << 15

# Newest first; the kernel refuses a flag that it does not know with EINVAL.
_COOPERATIVE = (
    constants.SETUP_SUBMIT_ALL | constants.SETUP_COOP_TASKRUN | constants.SETUP_TASKRUN_FLAG
)
_DEFERRED = (
    constants.SETUP_SUBMIT_ALL
    | constants.SETUP_SINGLE_ISSUER
    | constants.SETUP_DEFER_TASKRUN
    | constants.SETUP_TASKRUN_FLAG
)
_PLAIN = (_COOPERATIVE, constants.SETUP_SUBMIT_ALL, 0)


class UringCtx(
    FileOperations,
    ExtendedAttributes,
    SocketOperations,
    ProcessOperations,
    ControlOperations,
    SingleOperations,
):
    """A ring of io_uring.

    Prepare many operations, submit them with one system call, take their completions in batches::

        with UringCtx(entries=64) as ctx:
            for number, offset in enumerate(offsets):
                ctx.prep_read(fd, 4096, offset, number)
            for number, data, flags in ctx.wait_completions(len(offsets)):
                ...

    Every ``prep_`` method takes these options, by name:

    - ``user_data``: any hashable object, which the completion carries. One that equals another in
      flight is refused with ``ValueError`` before anything is submitted. By default the method
      chooses an integer from 2**32 on, and returns it.
    - ``link``: the next operation starts when this one has succeeded; a failure, or a short read
      or write, cancels the rest of the chain. ``hardlink``: the next one starts in any case.
    - ``drain``: starts when all operations before it have completed.
    - ``fixed_file``: the descriptor is the index of a registered file.
    - ``force_async``: starts on a worker thread of the kernel at once.
    - ``skip_success``: only a failure has a completion.

    Buffers are held, and cannot be resized, until the operation's final completion, even after a
    cancel. Memory that the kernel may still write to is never freed: if a ring cannot be closed in
    order, the memory stays allocated.

    A ring belongs to the thread that made it: ``RuntimeError`` in any other, and in a child process
    after ``fork()``. The GIL is released only while the kernel may block, and while it copies more
    than 64 KiB.

    Args:
        entries: places in the submission queue, rounded up to a power of two.
        cq_entries: places in the completion queue; four times as many by default. Completions
            beyond it are kept by the kernel and not lost.
        defer_taskrun: completions are processed only when the program asks for them, which is
            fastest. Default: where the kernel can (Linux 6.1). A selector does not wake up for such
            a ring; see :meth:`fileno`.
        sqpoll: a kernel thread submits, so that submitting needs no system call. It spins on a
            processor core until nothing was submitted for ``sqpoll_idle`` seconds. What it opens
            has the credentials of the process that made the ring, even after setuid().
        sqpoll_idle: seconds until the idle kernel thread sleeps.
        sqpoll_cpu: the core of this thread.
        iopoll: wait for the device by spinning: only for O_DIRECT on a device with poll queues.
        max_workers: the largest numbers of the kernel's worker threads, ``(bounded, unbounded)``:
            for files, and for operations that may block forever; 0 keeps the kernel's number.

    Raises:
        UringError: if the kernel refuses the ring; the message names the remedy.
        ValueError: if a number is out of its range, or ``sqpoll`` and ``defer_taskrun`` are given.
    """

    def __init__(
        self,
        entries: int = 256,
        *,
        cq_entries: int | None = None,
        defer_taskrun: bool | None = None,
        sqpoll: bool = False,
        sqpoll_idle: float = 1.0,
        sqpoll_cpu: int | None = None,
        iopoll: bool = False,
        max_workers: tuple[int, int] | None = None,
    ) -> None:
        if not 1 <= entries <= MOST_ENTRIES:
            raise ValueError(f"entries is {entries}; it must be from 1 to {MOST_ENTRIES}")
        completions = 4 * entries if cq_entries is None else cq_entries
        if not entries <= completions <= 4 * MOST_ENTRIES:
            raise ValueError(
                f"cq_entries is {completions}; it must be from entries, {entries}, to "
                f"{4 * MOST_ENTRIES}"
            )
        if sqpoll and defer_taskrun:
            raise ValueError("sqpoll and defer_taskrun exclude each other")
        common = constants.SETUP_CQSIZE | (constants.SETUP_IOPOLL if iopoll else 0)
        if sqpoll:
            common |= constants.SETUP_SQPOLL
            common |= constants.SETUP_SQ_AFF if sqpoll_cpu is not None else 0
            choices: tuple[int, ...] = (constants.SETUP_SUBMIT_ALL, 0)
        elif defer_taskrun is None:
            choices = (_DEFERRED, *_PLAIN)
        else:
            choices = (_DEFERRED,) if defer_taskrun else _PLAIN
        refusal: UringError | None = None
        for flags in choices:
            try:
                super().__init__(
                    entries,
                    common | flags,
                    min(completions, 2 * MOST_ENTRIES),
                    sqpoll_cpu or 0,
                    int(sqpoll_idle * 1000),
                )
            except UringError as error:
                refusal = error
                if error.errno != errno.EINVAL:
                    break
            else:
                refusal = None
                break
        if refusal is not None:
            number = refusal.errno or errno.EINVAL
            text = explain_refusal(number) if _native.built else _native.NOT_BUILT
            raise UringError(number, text) from None
        if max_workers is not None:
            try:
                self.set_max_workers(*max_workers)
            except BaseException:
                self.close()
                raise

    @property
    def defers(self) -> bool:
        """Whether completions wait until the program asks for them."""
        return bool(self.setup_flags & constants.SETUP_DEFER_TASKRUN)

    def fileno(self) -> int:
        """Return the ring's descriptor for a selector: readable when completions are available.

        Raises:
            ValueError: if the ring is closed, or was not made with ``defer_taskrun=False``: a
                selector does not wake up for a deferring ring.
        """
        if self.closed:
            raise ValueError("the ring is closed")
        if self.defers:
            raise ValueError(
                "a selector would not wake up for this ring; make it with defer_taskrun=False"
            )
        return self.ring_fd
