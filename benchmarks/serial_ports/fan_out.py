"""Poll many instruments at once: 50 polls of each of N ports, from opening to closing.

    python benchmarks/serial_ports/fan_out.py --contender penstock@penstock --ports 16

Each port's far end answers a CR with a frame of 48 bytes. It is a thread of the same process, as on
anyserial's page (``--far-end threads``), or one process for all (``--far-end process``).
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.measured_program import exit_code
from benchmarks.serial_ports.libraries import (
    BAUDRATE,
    imported,
    open_port,
    run,
    split,
)
from benchmarks.serial_ports.ptys import (
    FRAME,
    PtyPair,
    answer_once,
    answering_process,
    other_core,
)

POLLS = 50


def thread_count() -> int:
    """The threads of this process, as the kernel counts them."""
    return len(os.listdir("/proc/self/task"))


@contextmanager
def answering_threads(pairs: list[PtyPair]) -> Iterator[None]:
    """One thread per port, as on anyserial's page."""
    stop, stop_write = os.pipe()

    def answer(fd: int) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(stop, select.POLLIN | select.POLLHUP)
        while all(ready != stop for ready, _ in poll.poll()):
            answer_once(fd, frames=True)

    threads = [threading.Thread(target=answer, args=(pair.fd,)) for pair in pairs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        os.close(stop_write)
        for thread in threads:
            thread.join()


def poll_in_loop(library: str, loop: str, pairs: list[PtyPair]) -> int:
    """All ports in one event loop; returns how many threads there were in the middle."""
    import anyio

    threads = 0

    async def poll(path: str) -> None:
        nonlocal threads
        port = await open_port(library, path)
        try:
            for number in range(POLLS):
                if number == POLLS // 2 and path == pairs[0].path:
                    threads = thread_count()
                await port.send(b"A\r")
                frame = b""
                while not frame.endswith(b"\r"):
                    frame += await port.receive(128)
                if frame != FRAME:
                    raise AssertionError(f"a frame was damaged: {frame!r}")
        finally:
            await port.close()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for pair in pairs:
                tasks.start_soon(poll, pair.path)

    run(loop, main)
    return threads


def poll_in_threads(pairs: list[PtyPair], *, one_read: bool) -> int:
    """One thread per port, each with a pyserial port; returns how many threads there were.

    pyserial's ``read_until`` reads byte by byte. With *one_read*, a frame is read by its length.
    """
    serial = imported("serial")
    done: list[int] = []

    def poll(path: str) -> None:
        with serial.Serial(path, baudrate=BAUDRATE, timeout=5) as port:
            for _ in range(POLLS):
                port.write(b"A\r")
                frame = port.read(len(FRAME)) if one_read else port.read_until(b"\r")
                if frame != FRAME:
                    return
        done.append(1)

    threads = [threading.Thread(target=poll, args=(pair.path,)) for pair in pairs]
    for thread in threads:
        thread.start()
    count = thread_count()
    for thread in threads:
        thread.join()
    if len(done) != len(pairs):
        raise AssertionError("a frame was damaged")
    return count


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description="Many instruments at once")
    parser.add_argument(
        "--contender", required=True, help="library@loop, or pyserial, or 'pyserial, one read'"
    )
    parser.add_argument("--ports", type=int, required=True)
    parser.add_argument("--far-end", choices=["threads", "process"], default="threads")
    arguments = parser.parse_args()
    library, loop = split(arguments.contender)
    pairs = [PtyPair() for _ in range(arguments.ports)]
    blocking = library.startswith("pyserial")
    if blocking:
        imported("serial")
    else:
        run(loop, _warm_up(library))
    far_end = (
        answering_threads(pairs)
        if arguments.far_end == "threads"
        else answering_process(pairs, other_core(), frames=True)
    )
    with far_end:
        begin, cpu = time.perf_counter(), time.process_time()
        if blocking:
            threads = poll_in_threads(pairs, one_read=library != "pyserial")
        else:
            threads = poll_in_loop(library, loop, pairs)
        seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
                "polls": POLLS * len(pairs),
                "threads": threads,
            }
        )
    )


def _warm_up(library: str) -> Callable[[], Awaitable[None]]:
    # Imports and the first event loop of the process must not be timed.
    async def open_and_close() -> None:
        pair = PtyPair()
        port = await open_port(library, pair.path)
        await port.close()

    return open_and_close


if __name__ == "__main__":
    sys.exit(exit_code(main))
