"""Kills recorders at every call that changes a file and at random moments, and checks each.

    python -m tests.python.record.crashes --kills 200 --out FILE

:mod:`tests.python.record.killed_recorders` tells what is checked.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.python.integration.postgres import postgres_server
from tests.python.record.file_calls import kill_at_file_call
from tests.python.record.killed_recorders import (
    Accepted,
    Files,
    killed_after,
    new_folder,
    record_into,
    run_and_check,
)
from tests.python.record.traced_recorders import (
    CHANGING_CALLS,
    kill_at_system_call,
    refuse_from_system_call,
)

__all__ = ["NAMES", "kill_at_call", "kill_at_random"]

NAMES = ("run.csv", "run.jsonl", "run.parquet", "run.arrow", "run", "run.sqlite")
SQLITE = "run.sqlite"
REFUSALS = ("EROFS", "EIO", "ENOSPC")


def kill_at_call(name: str, number: int, root: Path) -> bool:
    """Kill a recorder at its call ``number``; False when it has fewer."""
    folder = new_folder(root)
    target = Files(folder / name)

    def recorder(accepted: Accepted) -> None:
        kill_at_file_call(number)
        record_into(target, accepted, batches=4, loss_rows=0)

    killed = run_and_check(target, recorder, 0) != 0
    shutil.rmtree(folder)
    return killed


def kill_at_random(name: str, chance: random.Random, root: Path) -> None:
    """Kill a recorder within its first second, with a loss window in rows."""
    folder = new_folder(root)
    target = Files(folder / name)
    window = chance.choice([0, 25, 1000])
    seconds = chance.choice([0.01, 0.1, 1.0])

    def recorder(accepted: Accepted) -> None:
        record_into(target, accepted, batches=None, loss_rows=window, loss_interval=seconds)

    # A row more than the window may be in a call that has not returned.
    run_and_check(target, recorder, window, end=killed_after(chance.uniform(0.001, 1.0)))
    shutil.rmtree(folder)


def main() -> None:
    """Kill them all; ends at the first check that fails."""
    # Needs psycopg and a server, which the tests of one sink alone do not.
    from tests.python.record.postgres_recorders import (
        kill_at_random_beside_a_server,
        kill_at_spool_call,
    )

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="kills at random moments")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    begin = time.monotonic()
    calls: dict[str, Any] = {}
    refused: dict[str, int] = {}
    at_random = dict.fromkeys((*NAMES, "postgres"), 0)
    with tempfile.TemporaryDirectory() as folder, postgres_server() as server:
        root = Path(folder)
        for name in NAMES:
            if name == SQLITE:
                # Its calls are made in C.
                calls[name] = {
                    call: killed
                    for call in CHANGING_CALLS
                    if (killed := _count(lambda n, c=call: kill_at_system_call(SQLITE, c, n, root)))  # type: ignore[misc]
                }
            else:
                calls[name] = _count(lambda n, f=name: kill_at_call(f, n, root))  # type: ignore[misc]
            print(f"{name}: killed at each of {calls[name]} calls", flush=True)
        calls["postgres spool"] = _count(lambda n: kill_at_spool_call(server, n, root))
        print(f"the spool: killed at each of {calls['postgres spool']} calls", flush=True)
        for errno in REFUSALS:
            for name in NAMES:
                for number in range(1, 13):
                    refuse_from_system_call(name, errno, number, root)
            refused[errno] = 12 * len(NAMES)
            print(f"{errno}: {refused[errno]} disks", flush=True)
        for kill in range(options.kills):
            name = (*NAMES, "postgres")[kill % (len(NAMES) + 1)]
            if name == "postgres":
                kill_at_random_beside_a_server(server, chance, root)
            else:
                kill_at_random(name, chance, root)
            at_random[name] += 1
        print(f"{options.kills} kills at random moments: {at_random}")
    result = {
        "killed_at_each_call": calls,
        "disk_that_fails_from_a_call_on": refused,
        "killed_at_random_moments": at_random,
        "unreadable": 0,
        "beyond_the_loss_window": 0,
        "duplicates_after_resume": 0,
        "seed": options.seed,
        "minutes": round((time.monotonic() - begin) / 60, 1),
    }
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


def _count(kill: Any) -> int:
    """How many calls there were to be killed at."""
    number = 1
    while kill(number):
        number += 1
    return number - 1


if __name__ == "__main__":
    main()
