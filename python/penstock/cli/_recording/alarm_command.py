"""``penstock alarm``: the alarms of a running recording, and what a person does with them."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.note_command import ask_recorder, folder_of

__all__ = ["run_alarm"]


def run_alarm(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Ask the recorder of ``options.folder``; return the exit code.

    A signal ends it by :class:`~penstock.cli._errors.Interrupted`.
    """
    folder = folder_of(Path(options.folder))
    if options.action == "list":
        answer = ask_recorder(folder, {"alarms": True}, what="")
        _refuse_without(answer, "alarms", "the alarms cannot be listed")
        _print(answer["alarms"], as_json=options.json)
        return ExitCode.OK
    if options.alarm is None:
        raise CommandError(
            f"{options.action} needs the name of an alarm, as penstock alarm {folder} lists it",
            ExitCode.USAGE,
        )
    request = {
        "alarm": options.alarm,
        "do": options.action,
        "seconds": options.seconds,
        "author": options.author,
    }
    answer = ask_recorder(folder, request, what=f"the event of {options.action}")
    _refuse_without(answer, "done", f"{options.alarm} was left as it is")
    print(f"{options.action} in {folder}: {answer['done']}")
    return ExitCode.OK


def _refuse_without(answer: dict[str, Any], key: str, what: str) -> None:
    if key not in answer:
        raise CommandError(f"{what}: {answer.get('refused')}", ExitCode.USAGE)


def _print(alarms: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(alarms))
        return
    for each in alarms:
        since = datetime.fromtimestamp(each["since"]).astimezone().isoformat(" ", "seconds")
        shelved = ", shelved" if each["shelved_until"] is not None else ""
        print(f"{each['alarm']}  {each['state']}{shelved}  {since}  {each['message']}")
    if not alarms:
        print("no alarm has ever begun")
