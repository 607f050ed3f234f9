"""The load of the uvloop_bench page in Python: workers with one blocking connection each.

    python benchmarks/echo_workers.py --port 8000 --size 1024 --connections 3 --seconds 1

It has the structure of the client of uvloop's benchmark: each worker is a process that sends a
message and receives until the reply is complete. Every reply is compared with its message.
Takes the options of the C++ program ``echo_workers`` and prints the same JSON line, without
latencies: reading a clock for each reply would slow the workers down.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import socket
import sys
import time
import traceback

PATIENCE = 5.0  # seconds for a reply
POLL_EVERY = 0.0005
MESSAGES = 16  # different messages in turn, so that a stale reply is detected
FIRST_COUNTER = 1  # place 0 of the shared memory is the request to stop


def work(arguments: argparse.Namespace, number: int, board: memoryview) -> None:
    """One worker: request and reply until the parent sets the stop mark."""
    size = arguments.size
    source = random.Random(number)
    messages = [source.randbytes(size) for _ in range(MESSAGES)]
    mine = FIRST_COUNTER + number
    with socket.socket(socket.AF_INET if arguments.port else socket.AF_UNIX) as connection:
        connection.connect(("127.0.0.1", arguments.port) if arguments.port else arguments.unix)
        connection.settimeout(PATIENCE)
        if arguments.port:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        count = 0
        while not board[0]:
            message = messages[count % MESSAGES]
            connection.sendall(message)
            reply = connection.recv(size)
            while len(reply) < size:
                more = connection.recv(size - len(reply))
                if not more:
                    raise ConnectionError(f"message {count + 1}: the server closed the connection")
                reply += more
            if reply != message:
                raise ValueError(f"message {count + 1}: the reply differs")
            count += 1
            board[mine] = count


def start_worker(arguments: argparse.Namespace, number: int, board: memoryview) -> int:
    """Fork a worker; returns its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work(arguments, number, board)
        code = 0
    except (OSError, ValueError) as error:
        print(f"worker {number}, {error}", file=sys.stderr, flush=True)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def cpu_time(pid: int) -> float:
    """CPU seconds of all threads of a process; 0 for process 0."""
    # The clock id of another process, as clock_getcpuclockid(3) computes it.
    return time.clock_gettime(~pid << 3 | 2) if pid else 0.0


def replies(board: memoryview) -> int:
    """The replies that all workers have verified."""
    return sum(board[FIRST_COUNTER:])


def check(workers: list[int]) -> None:
    """Exit if a worker has ended early; the worker itself reports the reason."""
    if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
        for pid in workers:
            os.kill(pid, 9)
        sys.exit("a worker gave up")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Load the server; returns the figures of the timed region."""
    places = FIRST_COUNTER + arguments.connections
    board = memoryview(mmap.mmap(-1, places * 8)).cast("Q")[:places]
    workers = [start_worker(arguments, number, board) for number in range(arguments.connections)]

    def sleep_until(end: float) -> None:
        while time.monotonic() < end:
            time.sleep(POLL_EVERY)
            check(workers)

    while not all(board[FIRST_COUNTER:]):
        sleep_until(time.monotonic() + POLL_EVERY)
    sleep_until(time.monotonic() + arguments.warmup)
    client_cpu = sum(map(cpu_time, workers))
    before, server_cpu, begun = replies(board), cpu_time(arguments.server_pid), time.monotonic()
    if not arguments.requests:
        sleep_until(begun + arguments.seconds)
    # At least one, even if the server was held up for the whole region.
    while replies(board) - before < max(arguments.requests, 1):
        sleep_until(time.monotonic() + POLL_EVERY)
    requests, seconds = replies(board) - before, time.monotonic() - begun
    server_cpu = cpu_time(arguments.server_pid) - server_cpu
    client_cpu = sum(map(cpu_time, workers)) - client_cpu
    board[0] = 1
    failed = [pid for pid in workers if os.waitpid(pid, 0)[1] != 0]
    if failed:
        sys.exit("a worker gave up")
    return {
        "requests": requests,
        "replies": replies(board),
        "seconds": seconds,
        "server_cpu_seconds": server_cpu,
        "client_cpu_seconds": client_cpu,
    }


def main() -> None:
    """Load one server."""
    parser = argparse.ArgumentParser(description="Workers that load an echo server")
    address = parser.add_mutually_exclusive_group(required=True)
    address.add_argument("--port", type=int, help="of 127.0.0.1")
    address.add_argument("--unix", metavar="PATH")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--connections", type=int, default=3, help="worker processes (3)")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--warmup", type=float, default=0.25)
    parser.add_argument("--requests", type=int, default=0, help="instead of a fixed time")
    parser.add_argument("--server-pid", type=int, default=0)
    print(json.dumps(run(parser.parse_args())))


if __name__ == "__main__":
    main()
