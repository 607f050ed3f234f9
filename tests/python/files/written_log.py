"""Logs written without a writer, and read without a loop."""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

from penstock.files import Recovered
from penstock.files._log.log_file import open_log_file
from penstock.files._log.log_format import (
    FILE_HEADER_SIZE,
    LogIdentity,
    RecordParser,
    encode_file_header,
)

COMMITS = [[b"alpha"], [b"", b"beta" * 5, b"gamma"], [b"delta" * 3, b"epsilon"]]


def encode_commit(
    log: LogIdentity, offset: int, payloads: list[bytes], *, batch: bool = False
) -> bytes:
    """Return the bytes of a commit at ``offset``, which is one batch or has single records."""
    data = b""
    for payload in payloads:
        data += log.encode_header(
            offset,
            offset + len(data),
            len(payload),
            crc32(payload),
            continued=batch and payload is not payloads[-1],
        )
        data += payload
    return data


class WrittenLog:
    """A log's bytes, and the ends of its commits and records."""

    def __init__(self, commits: list[list[bytes]], version: int = 2) -> None:
        self.identity = LogIdentity(version, os.urandom(4))
        self.header_size = self.identity.header_size
        data = bytearray(encode_file_header(self.identity))  # which grows in place
        self.records: list[bytes] = []
        self.ends = [FILE_HEADER_SIZE]  # of the header, then of each record
        self.commit_ends = [FILE_HEADER_SIZE]
        for commit in commits:
            data += encode_commit(self.identity, len(data), commit)
            for payload in commit:
                self.records.append(payload)
                self.ends.append(self.ends[-1] + self.header_size + len(payload))
            self.commit_ends.append(self.ends[-1])
        self.data = bytes(data)
        assert self.ends[-1] == len(self.data)

    def whole_before(self, offset: int) -> int:
        """Return how many records end at or before this offset."""
        return sum(end <= offset for end in self.ends[1:])


def open_and_read(path: Path) -> tuple[Recovered, list[bytes]]:
    opened = open_log_file(str(path), 0o666)
    try:
        size = os.fstat(opened.fd).st_size
        data = os.pread(opened.fd, size, FILE_HEADER_SIZE)
        return opened.recovered, list(RecordParser(opened.identity).feed(data))
    finally:
        os.close(opened.fd)
