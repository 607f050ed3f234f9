"""Reads a file of seals, whoever has changed it since."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from penstock.record._seals.digests import digest_of
from penstock.record._seals.seal import Seal, head_of, seal_of
from penstock.record.damage import UNREADABLE, reason_of

__all__ = ["SealList", "read_seals"]


@dataclass(slots=True)
class SealList:
    """The seals of a file, in order; each begins where the one before ends.

    Attributes:
        path: the file of seals.
        seals: those that count. Only a ``found`` one may begin before the end of the last.
        end: behind the line of the last one.
        head: the first line.
        begin: what the first one is chained to.
        public_key: of the signatures, in hexadecimal; empty without them.
        fault: why none of it can be read; empty if it can.
        damaged: the lines that cannot be read, by number, with the reason.
        gaps: seals before which at least one is missing.
    """

    path: Path
    seals: list[Seal] = field(default_factory=list)
    end: int = 0
    head: bytes = b""
    begin: bytes = b""
    public_key: str = ""
    fault: str = ""
    damaged: dict[int, str] = field(default_factory=dict)
    gaps: list[Seal] = field(default_factory=list)

    @property
    def last(self) -> Seal:
        """The last seal; one of nothing if there is none."""
        return self.seals[-1] if self.seals else Seal(-1, "", 0, 0, 0, 0, 0, 0, b"", self.begin)


def read_seals(path: Path) -> SealList | None:
    """The seals of the file ``path``; None if there is no such file. OSError."""
    try:
        with open(path, "rb") as file:
            return _read(SealList(path), file)
    except FileNotFoundError:
        return None


def _read(found: SealList, file: BinaryIO) -> SealList:
    """Line by line: a month of text has some hundred thousand seals."""
    head = file.readline()
    try:
        about = head_of(head)
        found.public_key = str(about.get("public_key", ""))
    except UNREADABLE as error:
        found.fault = reason_of(error) if head else "it is empty"
        return found
    found.head = head.removesuffix(b"\n") + b"\n"
    found.begin = digest_of(about["digest"], head)
    found.end = at = len(found.head)
    for number, data in enumerate(file, 2):
        line = data.removesuffix(b"\n")
        at += len(line) + 1
        if not line:
            continue
        try:
            seal = seal_of(line)
        except UNREADABLE as error:
            found.damaged[number] = reason_of(error)
            continue
        last = found.last
        seal = _sharing(seal, last)
        if last.kind == "open" and seal.start == last.start and seal.end >= last.end:
            found.seals[-1] = seal
        elif seal.start == last.end or (seal.kind == "found" and seal.start < last.end):
            found.seals.append(seal)
        elif seal.start > last.end:
            found.gaps.append(seal)
            found.seals.append(seal)
        else:
            continue  # left of a range that was then completed
        found.end = at
    return found


def _sharing(seal: Seal, last: Seal) -> Seal:
    """The same seal, with what it has of the one before as the same objects."""
    if (seal.start, seal.first_row, seal.previous) != (last.end, last.rows, last.digest):
        return seal
    return replace(seal, start=last.end, first_row=last.rows, previous=last.digest)
