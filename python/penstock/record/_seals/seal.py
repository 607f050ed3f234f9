"""One seal: what it says of a range of a file, and its line in the file of seals.

The format ``penstock seals 1`` is described in docs/record.md. A line is JSON, and all lines of a
file have the same length, so that a line can take the place of another.
"""

from __future__ import annotations

import errno
import json
import re
import sys
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from penstock.record._seals.digests import DIGEST_TEXT, FAST, PROOF, digest_of
from penstock.record.damage import UNREADABLE, reason_of

FORMAT = "penstock seals 1"
NO_STAMP = 0
KINDS = ("open", "full", "found", "closed", "failed", "no space", "cut off")
"""A range that still grows; one that is complete; one that an earlier run had not sealed before it
was cut off; and the last range of a run, by how the run ended. ``cut off`` is a file that
:func:`penstock.record.recover` has made."""
ENDS = KINDS[3:]
"""The kinds of the last seal of a run that was not cut off."""
_FULL = (errno.ENOSPC, errno.EDQUOT)

_LINE = re.compile(
    rb'(\{.*), "digest": "(' + DIGEST_TEXT + rb')"(?:, "signature": "([0-9a-f]{128})")?'
    rb', "crc": "([0-9a-f]{8})"\}'
)


@dataclass(frozen=True, slots=True)
class Seal:
    """What is sealed.

    Attributes:
        number: of the seal in its file, from 0.
        kind: one of :data:`KINDS`.
        start, end: the bytes of the file.
        first_row, rows: the rows before ``start``, and before ``end``.
        first_ns, last_ns: ``t_utc`` of the first and of the last of these rows; 0 without rows.
        previous: the digest of the seal before, or of the head.
        digest: of ``previous``, the bytes, and the line up to the digest.
        signature: of the digest; empty without one.
    """

    number: int
    kind: str
    start: int
    end: int
    first_row: int
    rows: int
    first_ns: int
    last_ns: int
    previous: bytes
    digest: bytes = b""
    signature: bytes = b""

    @property
    def before_digest(self) -> bytes:
        """The line up to the digest."""
        return seal_before_digest(self)


def seals_path(path: Path) -> Path:
    """Where the seals of a file lie: ``run.csv`` -> ``run.csv.seals``."""
    return path.with_name(path.name + ".seals")


def end_by(error: BaseException) -> str:
    """The kind of the last seal of a run that an error has ended."""
    cause: BaseException | None = error
    while cause is not None:
        full = getattr(cause, "sqlite_errorname", "").startswith("SQLITE_FULL")
        if full or (isinstance(cause, OSError) and cause.errno in _FULL):
            return "no space"
        cause = cause.__cause__
    return "failed"


def head_line(digest: str, file_id: str, public_key: str) -> bytes:
    """The first line of a file of seals; ``public_key`` is empty without signatures."""
    head = {"penstock": {"format": FORMAT, "digest": digest, "id": file_id}}
    if public_key:
        head["penstock"]["public_key"] = public_key
    return json.dumps(head).encode() + b"\n"


def head_of(line: bytes) -> dict[str, Any]:
    """What the first line says; ValueError if it is not that of a file of seals."""
    head = json.loads(line)
    about = head.get("penstock") if isinstance(head, dict) else None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f"its first line does not say {FORMAT}")
    if about.get("digest") not in (FAST, PROOF):
        raise ValueError(f"its digests are neither {FAST} nor {PROOF}")
    return about


def seal_before_digest(seal: Seal) -> bytes:
    """The line of a seal up to its digest."""
    kind = f'"{seal.kind}",'
    return (
        f'{{"seal": {seal.number:>9}, "kind": {kind:<11} "start": {seal.start:>15}, '
        f'"end": {seal.end:>15}, "first_row": {seal.first_row:>13}, "rows": {seal.rows:>13}, '
        f'"first_ns": {seal.first_ns:>20}, "last_ns": {seal.last_ns:>20}, '
        f'"previous": "{seal.previous.hex()}"'
    ).encode()


def seal_line(before_digest: bytes, digest: bytes, signature: bytes) -> bytes:
    """The whole line of a seal."""
    signed = f', "signature": "{signature.hex()}"' if signature else ""
    line = before_digest + f', "digest": "{digest.hex()}"{signed}'.encode()
    return line + f', "crc": "{zlib.crc32(line):08x}"}}\n'.encode()


def seal_of(line: bytes) -> Seal:
    """The seal that a line is; ValueError if the line is damaged."""
    match = _LINE.fullmatch(line)
    if match is None or zlib.crc32(line[: match.start(4) - len(b', "crc": "')]) != int(
        match[4], 16
    ):
        raise ValueError("the line is damaged")
    content = json.loads(match[1] + b"}")
    seal = Seal(
        content["seal"],
        sys.intern(content["kind"]),
        content["start"],
        content["end"],
        content["first_row"],
        content["rows"],
        content["first_ns"],
        content["last_ns"],
        bytes.fromhex(content["previous"]),
        bytes.fromhex(match[2].decode()),
        bytes.fromhex((match[3] or b"").decode()),
    )
    if seal.before_digest != match[1]:
        raise ValueError("the line is not written as a seal is")
    return seal


# Reads a file of seals, whoever has changed it since.


@dataclass(slots=True)
class SealList:
    """The seals of a file, in order; each begins where the one before ends.

    Attributes:
        path: the file of seals.
        seals: those that count. Only a ``found`` one may begin before the end of the last.
        end: after the line of the last one.
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
