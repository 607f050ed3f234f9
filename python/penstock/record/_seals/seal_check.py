"""Whether a file is as it was sealed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias

from penstock.record._seals.digests import PublicKey, digest_like, new_digest
from penstock.record._seals.line_end_changes import RestoredText, changed_line_ends
from penstock.record._seals.seal import ENDS, Seal, SealList, read_seals, seals_path

_PIECE = 1 << 20
_Content: TypeAlias = BinaryIO | RestoredText
HOW = {
    "closed": "closed",
    "cut off": "cut off",
    "failed": "ended by an error",
    "no space": "ended by a full disk",
}


@dataclass(slots=True)
class SealFindings:
    """The result of checking the seals of one file, or of one table of a database.

    Attributes:
        path: the file; for a database, the file and the name of the table.
        sealed: False for a file without seals, which cannot be checked.
        rows: the number of sealed rows.
        first_ns, last_ns: ``t_utc`` of the first and of the last sealed row; 0 without rows.
        ended: how each run in the file has ended, in order: ``closed``, ``cut off``, ``ended by a
            full disk``, ``ended by an error``, ``growing``.
        signed: True if the given key has signed every seal.
        problems: sentences about what is missing, changed, or not signed.
        remarks: sentences about what the seals do not prove, though nothing is known to be wrong.
    """

    path: Path
    sealed: bool = False
    rows: int = 0
    first_ns: int = 0
    last_ns: int = 0
    ended: list[str] = field(default_factory=list)
    signed: bool = False
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def unchanged(self) -> bool:
        """True if every row is sealed, is as it was sealed, and the last run was closed."""
        return (
            self.sealed
            and not (self.problems or self.remarks)
            and bool(self.ended)
            and self.ended[-1] == "closed"
        )


def check_file(path: Path, *, growing: bool = False, key: PublicKey | None = None) -> SealFindings:
    """Compare a file with its seals, reading all of it once. Nothing is changed. OSError.

    Args:
        path: the file.
        growing: True while a recorder writes it: then its end need not be sealed.
        key: the key that must have signed the seals.
    """
    findings = SealFindings(path)
    # The seals first: a file that grows has at least what they say.
    found = read_seals(seals_path(path))
    if found is None:
        if key is not None:
            findings.problems.append("it has no seals, so nothing of it is signed")
        return findings
    findings.sealed = True
    if found.fault:
        findings.problems.append(f"its seals cannot be read: {found.fault}")
        return findings
    _describe(found, findings, growing)
    with open(path, "rb") as file:
        _check_bytes(file, file.seek(0, 2), found, findings, growing)
        if findings.problems:
            _check_without_line_ends(path, file, found, findings, growing)
    _check_signatures(found.seals, findings, key)
    _check_chain(found, findings, growing)
    return findings


def _describe(found: SealList, findings: SealFindings, growing: bool) -> None:
    findings.rows = found.last.rows
    stamped = [seal for seal in found.seals if seal.first_ns or seal.last_ns]
    if stamped:
        findings.first_ns, findings.last_ns = stamped[0].first_ns, stamped[-1].last_ns
    before: Seal | None = None
    for seal in found.seals:
        if seal.kind == "found":
            if before is not None:
                findings.ended.append(HOW.get(before.kind, "cut off"))
            elif seal.rows:
                findings.ended.append("not sealed")
        before = seal
    if growing:
        findings.ended.append("growing")
    else:
        findings.ended.append(HOW.get(found.last.kind, "cut off"))


def _check_bytes(
    file: _Content, size: int, found: SealList, findings: SealFindings, growing: bool
) -> None:
    for number, seal in enumerate(found.seals):
        following = found.seals[number + 1] if number + 1 < len(found.seals) else None
        _check_range(file, size, seal, following, found, findings)
    end = found.last.end
    if size > end and not growing:
        what = f"{size - end} bytes after the last seal, from byte {end} on"
        if found.last.kind in ENDS:
            findings.problems.append(f"{what}, were added after its run was closed")
        else:
            findings.remarks.append(f"{what}, were written before its run was cut off, unproven")


def _check_without_line_ends(
    path: Path, file: BinaryIO, found: SealList, findings: SealFindings, growing: bool
) -> None:
    """Tell changed line ends as such, and only what else has changed beside them."""
    changed = changed_line_ends(path, file, found)
    if not changed:
        return
    restored = SealFindings(path)
    text = RestoredText(path, file)
    _check_bytes(text, text.size(), found, restored, growing)
    if len(restored.problems) > len(findings.problems):
        return
    rest = "and more than that has changed" if restored.problems else "and nothing else"
    what = f"its line ends were changed {changed}, as an editor or a file transfer does, {rest}"
    findings.problems = [what, *restored.problems]
    findings.remarks = restored.remarks


def _check_range(
    file: _Content,
    size: int,
    seal: Seal,
    following: Seal | None,
    found: SealList,
    findings: SealFindings,
) -> None:
    rows = rows_from_to(seal.first_row, seal.rows)
    if following is not None and following.start < seal.end and following.kind == "found":
        lost = rows_from_to(following.first_row, seal.rows)
        findings.problems.append(f"{lost} are missing: they were cut off before it was resumed")
        return
    if seal.end > size:
        if seal.start <= size and seal.end > seal.start:
            last = found.last
            all_rows = rows_from_to(seal.first_row, last.rows)
            part = "" if seal.start == size else ", or a part of them"
            where = f"bytes {size} to {last.end}"
            findings.problems.append(f"{all_rows} are missing{part}: {where} are not there")
        return
    digest = new_digest(digest_like(seal.digest), seal.previous)
    file.seek(at := seal.start)
    while at < seal.end and (piece := file.read(min(_PIECE, seal.end - at))):
        digest.update(piece)
        at += len(piece)
    digest.update(seal.before_digest)
    if digest.digest() != seal.digest:
        findings.problems.append(f"{rows} (bytes {seal.start} to {seal.end}) have changed")
    elif seal.kind == "found" and seal.end > seal.start:
        if _was_closed_before(found, seal):
            findings.problems.append(f"{rows} were added after its run was closed")
        else:
            findings.remarks.append(f"{rows} were found when it was resumed, and are sealed since")


def _was_closed_before(found: SealList, seal: Seal) -> bool:
    place = next(n for n, each in enumerate(found.seals) if each is seal)
    return place > 0 and found.seals[place - 1].kind in ENDS


def _check_signatures(seals: list[Seal], findings: SealFindings, key: PublicKey | None) -> None:
    if key is None:
        return
    unsigned = [s for s in seals if not s.signature or not key.has_signed(s.digest, s.signature)]
    for seal in unsigned:
        why = "is of another key" if seal.signature else "has no signature"
        findings.problems.append(f"the seal of {rows_from_to(seal.first_row, seal.rows)} {why}")
    findings.signed = bool(seals) and not unsigned


def _check_chain(found: SealList, findings: SealFindings, growing: bool) -> None:
    for number, reason in found.damaged.items():
        # Without a gap, the line has been replaced by another, or a kill has torn the last one.
        told = findings.problems if found.gaps else findings.remarks
        told.append(f"line {number} of {found.path} is not a seal: {reason}")
    previous = Seal(-1, "", 0, 0, 0, 0, 0, 0, b"", found.begin)
    for seal in found.seals:
        if seal in found.gaps:
            lacking = f"bytes {previous.end} to {seal.start}"
            findings.problems.append(f"the seal of {lacking} is missing")
        elif seal.previous != previous.digest or seal.number != previous.number + 1:
            rows = rows_from_to(seal.first_row, seal.rows)
            findings.problems.append(f"the seal of {rows} does not follow the one before it")
        previous = seal
    if not found.seals and not growing:
        findings.remarks.append("nothing of it was sealed before its run was cut off")


def rows_from_to(before: int, rows: int) -> str:
    """Rows as the part of a sentence."""
    if rows <= before:
        return "its head" if not before else f"all rows after row {before}"
    if rows == before + 1:
        return f"row {rows}"
    return f"rows {before + 1} to {rows}"
