"""``penstock verify`` and ``recover``: what is wrong with recorded files, and its mending."""

from __future__ import annotations

import argparse
import dataclasses
import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from penstock.cli._errors import CommandError, ExitCode, harmless, one_line, print_error
from penstock.cli._keys import public_key, signing_key
from penstock.cli._stored.checks import NEEDED, DeviceFindings, Findings, check
from penstock.cli._stored.reading import name_of, read_parts
from penstock.record import PublicKey, SealFindings, SigningKey, check_seals
from penstock.record.damage import ShorterFormat
from penstock.record.errors import RecordError, SinkDependencyError
from penstock.record.format_comparison import FormatFindings, find_differences
from penstock.record.postgres_server import is_postgres
from penstock.record.stored_parts import (
    StoredPart,
    check_recording,
    first_file,
    next_file,
    recordings_at,
    was_cut_off,
)
from penstock.record.view import StoredRecording


def run_verify(options: argparse.Namespace) -> int:
    """Check each file of ``options.files``; return FOUND if something is wrong with one.

    One that cannot be read is reported, and the others are checked; its code counts if nothing is
    wrong with them.
    """
    key = public_key(options.key)
    results: dict[str, Findings] = {}

    def check_one(file: str) -> None:
        found = _check(file, options.table, key, options.deep)
        results[name_of(file, options.table)] = found

    worst = _for_each(options.files, check_one)
    if options.json:
        print(
            json.dumps(
                {
                    file: {**dataclasses.asdict(findings), "problems": findings.problems}
                    for file, findings in results.items()
                },
                default=str,
            )
        )
    else:
        for file, findings in results.items():
            print(_as_text(file, findings))
    found = any(findings.problems for findings in results.values())
    return ExitCode.FOUND if found else worst


def _for_each(files: Sequence[str], work: Callable[[str], int | None]) -> int:
    """Do ``work`` with each file, even after one has failed; return the highest exit code.

    ``work`` may return a code itself.
    """
    worst = int(ExitCode.OK)
    for file in files:
        try:
            worst = max(worst, work(file) or 0)
        except CommandError as error:
            print_error(str(error), error)
            worst = max(worst, int(error.code))
    return worst


def _check(file: str, table: str, key: PublicKey | None, deep: bool) -> Findings:
    seals = [] if is_postgres(file) else _check_seals(file, key)
    # What is as it was sealed needs not be read again to find damage.
    proven = bool(seals) and all(seal.sealed and not seal.problems for seal in seals)
    found: list[StoredRecording] = []
    columns = NEEDED if proven and not deep else None

    def read() -> Iterator[StoredPart]:
        found.clear()
        return read_parts(file, table, tell=found.append, pieces=True, columns=columns)

    findings = check(read)
    findings.seals = seals
    formats = FormatFindings()
    if not is_postgres(file) and Path(file).is_dir():
        formats = find_differences(Path(file), table)
    findings.formats, findings.seams = formats.problems, formats.seams
    if not is_postgres(file):
        _tell_apart(Path(file), findings)
    for recording in found:
        damages = [
            damage
            for damage in recording.damages
            if not (isinstance(damage, ShorterFormat) and damage.path in formats.explained)
        ]
        findings.damages += map(str, damages)
        findings.damaged += recording.damage_count - len(recording.damages) + len(damages)
        if findings.runs > 1:
            findings.pauses += map(str, recording.pauses())
    if is_postgres(file) and key is not None:
        findings.schema.append("rows on a server are not sealed, so nothing is signed")
    return findings


def _tell_apart(path: Path, findings: Findings) -> None:
    """Tell of a file that is one part of a recording: it may be whole, and the recording not."""
    missing: dict[Path, str] = {}
    for part in recordings_at(path):
        first, following = first_file(part), next_file(part)
        if first is not None and not first.exists() and not was_cut_off(first):
            missing.setdefault(first, f"{first}: it is missing, and {part.name} is there")
        elif first is not None:
            findings.apart.append(
                f"{part.name} is one part of a recording, and the others were not checked: "
                f"penstock verify {first} checks all of them"
            )
        elif following is not None and following.exists():
            findings.apart.append(
                f"{part.name} continues in {following.name}, which was not checked because "
                f"its name is another one; give both the same name again, up to .partN"
            )
    findings.damages += missing.values()
    findings.damaged += len(missing)


def _check_seals(file: str, key: PublicKey | None) -> list[SealFindings]:
    try:
        check_recording(Path(file))
        return [found for path in recordings_at(Path(file)) for found in check_seals(path, key)]
    except RecordError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: OSError) -> CommandError:
    return CommandError(
        f"{error.filename or file} cannot be read: {error.strerror or one_line(error)}; "
        "check the path and its permissions",
        ExitCode.OUTPUT,
    )


def _sealed_as_text(seal: SealFindings) -> list[str]:
    name = harmless(str(seal.path))
    notes = [
        *(f"    changed: {harmless(problem)}" for problem in seal.problems),
        *(f"    unproven: {harmless(remark)}" for remark in seal.remarks),
    ]
    if not seal.sealed:
        stated = ""
        if seal.path.suffix in (".csv", ".jsonl"):
            stated = (
                "; its number of rows is not stated, so a missing end cannot be detected either"
            )
        if seal.ended:
            stated = f"; {', then '.join(seal.ended)}, {seal.rows} rows stated"
        return [f"  {name}: not sealed, so changes of values cannot be detected{stated}", *notes]
    if seal.unchanged:
        signed = ", signed" if seal.signed else ""
        if "cut off" in seal.ended:
            signed += "; a run in it was cut off"
        return [
            f"  {name}: complete and unchanged since it was closed, {seal.rows} rows"
            f"{_between(seal)}{signed}"
        ]
    ended = ", then ".join(seal.ended) or "its end is not known"
    state = "changed" if seal.problems else "unchanged as far as it is sealed"
    return [
        f"  {name}: {state}; {ended}, {seal.rows} rows sealed{_between(seal)}",
        *notes,
    ]


def _rates(device: DeviceFindings) -> str:
    if device.rate_hz is None or device.expected_hz is None:
        return ""
    return f", of another rate: {device.rate_hz:.4g} Hz instead of {device.expected_hz:.4g} Hz"


def _between(seal: SealFindings) -> str:
    if not (seal.first_ns and seal.last_ns):
        return ""
    first, last = (
        datetime.fromtimestamp(stamp / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for stamp in (seal.first_ns, seal.last_ns)
    )
    return f" of {first} to {last}"


def _as_text(file: str, findings: Findings) -> str:
    verdict = f"{findings.problems} problems" if findings.problems else "no problem"
    lines = [
        f"{file}: {verdict}; parts {findings.parts}, runs {findings.runs}, "
        f"events {findings.events}",
        *(f"  schema: {problem}" for problem in findings.schema),
        *(f"  formats: {harmless(problem)}" for problem in findings.formats),
        *(f"  seam: {harmless(seam)}" for seam in findings.seams),
        *(f"  pause: {pause}" for pause in findings.pauses),
        *(f"  part: {harmless(part)}" for part in findings.apart),
        *(f"  damaged: {harmless(damage)}" for damage in findings.damages),
    ]
    if (more := findings.damaged - len(findings.damages)) > 0:
        lines.append(f"  damaged: {more} further places")
    for seal in findings.seals:
        lines += _sealed_as_text(seal)
    for name, device in findings.devices.items():
        lines.append(
            f"  {harmless(name)}: samples {device.samples}, failed {device.failed}, "
            f"missed slots {device.missed_slots}, gaps {device.gaps}"
            + (f" (longest {device.longest_gap_s:.3f} s)" if device.gaps else "")
            + f", out of order {device.out_of_order}, duplicates {device.duplicates}"
            + f", begun over 1 ms late {device.late}"
            + _rates(device)
        )
    return "\n".join(lines)


# ``penstock recover``: complete the files of a recording that was cut off.


def recover_files(options: argparse.Namespace) -> int:
    """Recover each recording of ``options.files``, even after one could not be recovered.

    A folder of runs stands for all recordings in it. Returns the worst code.
    """
    key = signing_key(options.sign)

    def recover_one(file: str) -> None:
        _recover(file, options, key)

    def recover_all(target: str) -> int:
        left_out: list[Path] = []
        worst = _for_each(_recordings_of(target, left_out), recover_one)
        return max(worst, _for_each(list(map(str, left_out)), _refuse_unlisted))

    return _for_each(options.files, recover_all)


def _recordings_of(target: str, left_out: list[Path]) -> list[str]:
    try:
        if is_postgres(target) or not Path(target).is_dir():
            return [target]
        return list(map(str, recordings_at(Path(target), left_out))) or [target]
    except OSError as error:
        raise _unreadable(target, error) from error


def _refuse_unlisted(folder: str) -> None:
    raise _unreadable(folder, PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder))


def _recover(file: str, options: argparse.Namespace, key: SigningKey | None) -> None:
    from penstock.record import recover

    if is_postgres(file):
        raise CommandError(
            "a PostgreSQL server needs no recovery; what waits in a spool is sent by the next "
            "penstock record --resume into the same folder",
            ExitCode.USAGE,
        )
    try:
        result = recover(file, force=options.force, sign=key)
    except SinkDependencyError as error:
        raise CommandError(one_line(error), ExitCode.MISSING_PART) from error
    except RecordError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    except OSError as error:
        raise _unreadable(file, error) from error
    if options.json:
        facts = {
            "file": str(result.path),
            "rows": result.rows,
            "bytes_cut": result.bytes_cut,
            "kept_in": [str(cut.kept_in) for cut in result.cuts],
        }
        print(json.dumps(facts))
        return
    if not result.changed:
        print(f"{result.path} is complete; nothing to recover")
        return
    what = [f"{result.rows} samples added from its journal"] if result.rows else []
    what += [
        f"{cut.size} bytes of a torn end cut off and kept in {cut.kept_in}" for cut in result.cuts
    ]
    what += ["the missing line end of its last row added"] if result.row_ended else []
    what += ["its missing seal added"] if result.sealed else []
    print(f"recovered {result.path}: {', '.join(what)}")
