"""The list of the final parts of a folder, ``parts.jsonl``: a sealed line for each.

A line tells the files of a part with their sizes and digests, its rows, the outer time stamps and
how it ended, and has a digest that is chained to the line before: so a part that is missing,
changed or exchanged is found, and so is a line.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock._durable_files import write_fully
from penstock.record._seals.digests import (
    DIGEST_TEXT,
    PublicKey,
    SigningKey,
    digest_like,
    digest_name,
    digest_of,
    new_digest,
)
from penstock.record.damage import UNREADABLE, reason_of

_BEGIN = bytes(32)
_PIECE = 1 << 20
_LINE = re.compile(
    rb'(\{.*), "digest": "(' + DIGEST_TEXT + rb')"(?:, "signature": "([0-9a-f]{128})")?'
    rb', "crc": "([0-9a-f]{8})"\}'
)


@dataclass(frozen=True, slots=True)
class ListedPart:
    """A line of the list. ``sealed`` is False for one without a digest, of an older recording."""

    number: int
    entry: dict[str, Any]
    line: int
    sealed: bool = False
    digest: bytes = b""
    signature: bytes = b""

    def files(self) -> Iterable[tuple[str, int, bytes]]:
        """The files below the folder, each with its size and its digest, empty if unknown."""
        names = self.entry["files"]
        sizes = self.entry.get("bytes") or [0] * len(names)
        digests = self.entry.get("digests") or [""] * len(names)
        for name, size, digest in zip(names, sizes, digests, strict=True):
            yield str(name), int(size), bytes.fromhex(digest)


@dataclass(slots=True)
class PartList:
    """The list as it stands: its lines, and what is wrong with it."""

    parts: list[ListedPart] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    public_key: str = ""


def file_digest(path: Path, name: str) -> tuple[int, bytes]:
    """The size and the digest ``name`` of a file. OSError."""
    digest = new_digest(name)
    size = 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return size, digest.digest()


def add_part(path: Path, entry: Mapping[str, Any], key: SigningKey | None) -> None:
    """Add a line to the list ``path``, durably. OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        data = path.read_bytes()
        previous = _BEGIN
        for line in reversed(data.split(b"\n")):
            if (match := _LINE.fullmatch(line)) is not None:
                previous = bytes.fromhex(match[2].decode())
                break
        content = {**entry, "previous": previous.hex()}
        if key is not None:
            content["public_key"] = key.public.hex()
        before = json.dumps(content, ensure_ascii=False).encode()[:-1]
        digest = digest_of(digest_name(signed=key is not None), previous, before)
        signed = f', "signature": "{key.sign(digest).hex()}"' if key is not None else ""
        line = before + f', "digest": "{digest.hex()}"{signed}'.encode()
        line += f', "crc": "{zlib.crc32(line):08x}"}}\n'.encode()
        whole = data[: data.rfind(b"\n") + 1]
        if _LINE.fullmatch(data[len(whole) :]) is not None:
            line = b"\n" + line
        elif len(whole) < len(data):
            # A kill has torn the last line. Its part has its journal still, and gets another one.
            os.ftruncate(descriptor, len(whole))
        write_fully(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_part_list(path: Path, key: PublicKey | None = None) -> PartList:
    """The list ``path``; an empty one if there is none. OSError."""
    found = PartList()
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return found
    previous = _BEGIN
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line:
            continue
        where = f"line {number} of {path}"
        match = _LINE.fullmatch(line)
        try:
            entry = json.loads(line)
            part = ListedPart(int(entry["part"]), entry, number)
            files = list(part.files())
            int(entry["rows"])
        except UNREADABLE as error:
            if match is None and number == data.count(b"\n") + 1:
                continue  # torn by a power cut: its part has its journal still
            found.problems.append(f"{where} cannot be read: {reason_of(error)}")
            continue
        if match is None:
            if "previous" in entry or any(digest for _, _, digest in files):
                found.problems.append(f"{where} has been changed")
            found.parts.append(part)
            continue
        start = match.start(4) - len(b', "crc": "')
        digest = bytes.fromhex(match[2].decode())
        wrong = zlib.crc32(line[:start]) != int(match[4], 16)
        if wrong or _line_digest(entry, match[1], digest) != digest:
            found.problems.append(f"{where} has been changed")
        elif _bytes(entry["previous"]) != previous:
            found.problems.append(f"{where} does not follow the line before it: one is missing")
        previous = digest
        signature = bytes.fromhex((match[3] or b"").decode())
        if key is not None and not (signature and key.has_signed(digest, signature)):
            why = "is of another key" if signature else "has no signature"
            found.problems.append(f"{where} {why}")
        found.parts.append(ListedPart(part.number, entry, number, True, digest, signature))
    return found


def _line_digest(entry: dict[str, Any], before: bytes, like: bytes) -> bytes:
    return digest_of(digest_like(like), _bytes(entry.get("previous")), before)


def _bytes(text: object) -> bytes:
    try:
        return bytes.fromhex(str(text))
    except ValueError:
        return b""
