"""``penstock recover``: complete the files of a recording that was cut off."""

from __future__ import annotations

import argparse
import json

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._keys import signing_key

__all__ = ["recover_files"]


def recover_files(options: argparse.Namespace) -> int:
    """Recover each file of ``options.files``."""
    from penstock.record import RecordError, recover
    from penstock.record.postgres_uri import is_postgres

    key = signing_key(options.sign)
    for file in options.files:
        if is_postgres(file):
            raise CommandError(
                "a PostgreSQL server needs no recovery; what waits in a spool is sent by the next "
                "penstock record --resume into the same folder",
                ExitCode.USAGE,
            )
        try:
            result = recover(file, force=options.force, sign=key)
        except RecordError as error:
            raise CommandError(one_line(error), ExitCode.OUTPUT) from error
        if options.json:
            facts = {
                "file": str(result.path),
                "rows": result.rows,
                "bytes_cut": result.bytes_cut,
                "kept_in": [str(cut.kept_in) for cut in result.cuts],
            }
            print(json.dumps(facts))
        elif result.changed:
            what = [f"{result.rows} samples added from its journal"]
            what += [
                f"{cut.size} bytes of a torn end cut off and kept in {cut.kept_in}"
                for cut in result.cuts
            ]
            what += ["the missing line end of its last row added"] if result.row_ended else []
            print(f"recovered {result.path}: {', '.join(what)}")
        else:
            print(f"{result.path} is complete; nothing to recover")
    return ExitCode.OK
