"""One flipped byte in each of many copies of a recording: ``verify`` finds every changed value.

::

    python -m tests.python.record.flipped_bytes 200 tests/results/flipped_bytes.json
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import penstock.record
from penstock.cli import main
from tests.python.record.damaged_recordings import Original, originals

__all__ = ["NAMES", "Flips", "flip_bytes", "values_of"]

NAMES = ("csv", "jsonl", "sqlite", "parquet", "arrow", "parts", "journal", "Arrow parts")


@dataclass
class Flips:
    """What came of the copies of one recording.

    Attributes:
        copies: how many there were, each with one byte flipped.
        changed: those in which a value, a name or a unit is another, or cannot be read.
        found: those of which ``verify`` says that something is wrong.
        missed: the changed ones of which it does not.
    """

    copies: int
    changed: int = 0
    found: int = 0
    missed: list[str] = field(default_factory=list)


def flip_bytes(original: Original, copies: int, folder: Path) -> Flips:
    """Flip a byte in each of ``copies`` copies, which are made in ``folder``."""
    chance = random.Random(original.name)
    right = values_of(original.folder / original.opened)
    result = Flips(copies)
    for number in range(copies):
        copy = folder / str(number)
        opened = original.copy(copy)
        victim = chance.choice(original.files(copy))
        content = bytearray(victim.read_bytes())
        at = chance.randrange(len(content))
        content[at] ^= chance.randrange(1, 256)
        victim.write_bytes(content)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = main(["verify", str(opened)]) in (5, 8)
        changed = values_of(opened) != right
        result.found += found
        result.changed += changed
        if changed and not found:
            result.missed.append(f"byte {at} of {victim.name}, copy {number}")
        shutil.rmtree(copy)
    return result


def values_of(path: Path) -> object:
    """All values, with an error in their place if they cannot be read."""
    try:
        table = penstock.record.open(path).to_arrow()
        # As text: NaN equals itself.
        return repr(table.to_pylist()), repr(table.schema)
    except Exception as error:
        return type(error).__name__


def _main() -> int:
    copies, out, *only = sys.argv[1:]
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for original in originals(Path(folder, "sound")):
            if original.name in (only or NAMES):
                found = flip_bytes(original, int(copies), Path(folder))
                results[original.name] = asdict(found)
                print(original.name, found, flush=True)
                Path(out).write_text(json.dumps(results, indent=2) + "\n")
    return int(any(result["missed"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(_main())
