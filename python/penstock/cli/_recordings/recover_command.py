"""``penstock recover``: complete the files of a recording that was cut off."""

from __future__ import annotations

import argparse
import json

from penstock.cli._errors import CommandError, ExitCode, one_line

__all__ = ["recover_files"]


def recover_files(options: argparse.Namespace) -> int:
    """Recover each file of ``options.files``."""
    from penstock.record import RecordError, recover
    from penstock.record.postgres_parts import is_postgres

    for file in options.files:
        if is_postgres(file):
            raise CommandError(
                "a PostgreSQL server needs no recovery; what waits in a spool is sent by the next "
                "penstock record --resume into the same folder",
                ExitCode.USAGE,
            )
        try:
            result = recover(file)
        except RecordError as error:
            raise CommandError(one_line(error), ExitCode.OUTPUT) from error
        if options.json:
            facts = {"file": str(result.path), "rows": result.rows, "bytes_cut": result.bytes_cut}
            print(json.dumps(facts))
        elif result.changed:
            print(
                f"recovered {result.path}: {result.rows} samples added from its journal, "
                f"{result.bytes_cut} bytes of a torn end cut off"
            )
        else:
            print(f"{result.path} is complete; nothing to recover")
    return ExitCode.OK
