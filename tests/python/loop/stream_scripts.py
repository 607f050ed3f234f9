"""The script of a random conversation over streams: the data and actions of each end."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

LIMITS = [1, 2, 10, 100, 1000, 4096, 16384, 65536, 1 << 18, 1 << 20]
LARGEST_CHUNK = 1 << 20

ROUGH = ("abort", "leave", "set exception", "raise")
"""After these endings, the only checks are: no end hangs, and no byte is wrong."""

Operation = tuple[Any, ...]
"""A method of `stream_conversations.End` (with spaces for underscores), and its arguments."""


@dataclass
class Side:
    """The actions of one end in one part of a conversation."""

    content: bytes
    """All bytes that the end writes."""
    writes: list[Operation]
    reads: list[Operation]


@dataclass
class Part:
    """Both ends from one idle point to the next."""

    client: Side
    server: Side


@dataclass
class Conversation:
    parts: list[Part]
    """The second part, if any, runs over TLS after start_tls."""
    client_limit: int
    first_to_end: str
    ending: str
    """How that end closes the connection: "eof", "close", or, in a transfer, one of `ROUGH`."""
    last_read: Operation
    """The reaction of the other end."""


@dataclass
class Program:
    seed: int
    streams: str
    link: str
    server_limit: int
    tasks: str
    """The kind: ordinary, Python (asyncio's own in Python, before 3.14), eager (from 3.12 on)."""
    conversations: list[Conversation]


def make_program(seed: int) -> Program:
    """Return the program of a seed, the same in every run."""
    choose = random.Random(seed)
    link = choose.choice(["tcp", "tcp", "unix", "tls", "tls", "tcp start_tls", "unix start_tls"])
    streams = choose.choice(["asyncio", "penstock"])
    limit = choose.choice(LIMITS)
    conversations = [_conversation(choose, link, limit) for _ in range(choose.choice([1, 1, 2, 3]))]
    tasks = choose.choice(["ordinary", "ordinary", "ordinary", "Python", "eager", "eager"])
    return Program(seed, streams, link, limit, tasks, conversations)


def _size(choose: random.Random, largest: int) -> int:
    """Return a size; all orders of magnitude are equally likely."""
    return int(choose.choice([1.0, 1.0, 0.5]) * min(largest, 2 ** choose.uniform(0, 20.01)))


def _content(choose: random.Random, total: int) -> bytes:
    newlines = choose.choice([0, 1, 1, 20])  # of 256 bytes
    table = bytes(10 if i < newlines else 11 if i == 10 else i for i in range(256))
    return choose.randbytes(total).translate(table)


def _conversation(choose: random.Random, link: str, server_limit: int) -> Conversation:
    limits = (choose.choice(LIMITS), server_limit)
    first_to_end = choose.choice(["client", "server"])
    ending = "close" if choose.random() < 0.8 else choose.choice(ROUGH)
    if ending in ROUGH and "start_tls" in link:
        # A paused socket below TLS delays close_notify until the timeout.
        ending = "abort"
    if ending == "close" and "tls" not in link and choose.random() < 0.5:
        ending = "eof"
    count = 2 if "start_tls" in link else 1
    parts = []
    for i in range(count):
        contents = [_content(choose, _total(choose)) for _ in range(2)]
        talker = choose.randrange(
            2
        )  # only one end writes between its reads; otherwise both might wait
        sides = []
        for end in range(2):
            incoming = contents[1 - end]
            leave = 0
            if i == count - 1 and end != ["client", "server"].index(first_to_end):
                leave = _size(choose, len(incoming)) if choose.random() < 0.5 else 0
            reads = _reads(choose, incoming, len(incoming) - leave, limits[end])
            between = 0
            if end == talker:
                between = min(len(contents[end]), _size(choose, 200_000))
                _insert_writes(choose, reads, between)
            writes = _writes(choose, len(contents[end]) - between)
            sides.append(Side(contents[end], writes, reads))
        parts.append(Part(*sides))
    last_read = choose.choice(
        [("read", -1), ("read", -1), ("readexactly", 1 << 22), ("readline",), ("iterate", 1 << 30)]
    )
    return Conversation(parts, limits[0], first_to_end, ending, last_read)


def _total(choose: random.Random) -> int:
    return sum(_size(choose, LARGEST_CHUNK) for _ in range(choose.choice([0, 1, 2, 3])))


def _writes(choose: random.Random, total: int) -> list[Operation]:
    operations: list[Operation] = []
    left = total
    while left > 0:
        size = min(left, max(1, _size(choose, LARGEST_CHUNK)))
        if len(operations) > 60:
            size = left
        left -= size
        kind = choose.choice(["write", "write", "writelines", "write mutable"])
        operations.append((kind, size))
        operations += choose.choice([[], [], [("drain",)], [("turns", choose.randrange(8))]])
        if choose.random() < 0.05:
            operations.append(("write limit", choose.choice([1, 1000, 65536, 1 << 20])))
    return operations


def _reads(choose: random.Random, content: bytes, end: int, limit: int) -> list[Operation]:
    """Return reads that together consume `content[:end]`, and the actions between them."""
    operations: list[Operation] = []
    at = 0
    while at < end or (at == end == 0 and not operations):
        operations += _acts(choose)
        if at == end:
            break
        size = min(end - at, max(1, _size(choose, LARGEST_CHUNK)))
        kind = choose.choice(
            ["readexactly", "readexactly", "read", "readuntil", "readline", "iterate"]
        )
        if len(operations) > 80:
            kind, size = "readexactly", end - at
        if kind in ("readline", "iterate"):
            lines = 1 if kind == "readline" else choose.randrange(1, 6)
            to = at
            for _ in range(lines):
                found = content.find(b"\n", to, end)
                if found < 0 or found - to > limit:  # would drop all available data
                    break
                to = found + 1
            else:
                operations.append(("readline",) if kind == "readline" else ("iterate", lines))
                at = to
            continue
        if kind == "readuntil":
            place = at + size - 1
            separator = content[place : min(end, place + choose.randrange(1, 4))]
            found = content.find(separator, at, end)
            operations.append(("readuntil", separator))
            if found - at > limit:  # the data stay available
                continue
            at = found + len(separator)
            continue
        operation: Operation = (kind, size)
        if kind == "read":  # at most a few pieces, for any division into reads
            operation = ("read", max(1, size // choose.choice([1, 1, 2, 10])), size)
        if size > 1 and choose.random() < 0.15:
            how = choose.choice(["cancel", "time out", "second"])
            operation = ("interrupt", how, choose.randrange(6), kind, size)
        operations.append(operation)
        at += size
    return operations + _acts(choose)


def _acts(choose: random.Random) -> list[Operation]:
    if choose.random() < 0.6:
        return []
    return [
        choose.choice(
            [
                ("turns", choose.randrange(10)),
                ("sleep", choose.choice([0.0, 0.0005])),
                ("other socket", choose.choice([10, 1000, 60_000])),
                ("other socket", 60_000),
                ("other connection", max(1, _size(choose, 100_000))),
                ("pause", choose.randrange(10)),
                ("collect",),
            ]
        )
    ]


def _insert_writes(choose: random.Random, reads: list[Operation], total: int) -> None:
    while total > 0:
        size = min(total, max(1, _size(choose, 200_000)))
        total -= size
        reads.insert(choose.randrange(len(reads) + 1), ("write", size))
