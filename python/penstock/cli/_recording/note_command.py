"""Commands to a running recording: ``penstock note`` and ``penstock alarm``."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.control_socket import SOCKET_NAME, connected_to

_TIMEOUT = 10.0
"""Seconds."""


def run_note(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Ask the recorder of ``options.folder`` to record ``options.text``; return the exit code.

    A signal ends it by :class:`~penstock.cli._errors.Interrupted`.
    """
    folder = folder_of(Path(options.folder))
    request = {
        "note": " ".join(options.text),
        "device": options.device,
        "author": options.author,
    }
    answer = ask_recorder(folder, request, what="the note")
    if "noted" not in answer:
        raise CommandError(
            f"the note was not recorded: {answer.get('refused')}",
            ExitCode.USAGE,
        )
    print(f"noted in {folder}: {answer['noted']}")
    return ExitCode.OK


def folder_of(run: Path) -> Path:
    """The folder of a recording that is named by itself, or by one of its files."""
    if not run.exists():
        raise CommandError(
            f"{run} does not exist; give the folder of a running recording", ExitCode.OUTPUT
        )
    if run.is_dir() and ((run / SOCKET_NAME).exists() or not (run.parent / SOCKET_NAME).exists()):
        return run
    return run.parent


def ask_recorder(folder: Path, request: dict[str, Any], *, what: str) -> dict[str, Any]:
    """Send a request to the recorder in ``folder``, and return its answer. It blocks.

    Args:
        folder: The folder of the recording.
        request: The object that is sent.
        what: What it would make a row of the recording, for people; empty if nothing.

    Raises:
        CommandError: no recorder answers.
    """
    look = f", and whether {what} is among the rows" if what else ""
    try:
        with connected_to(folder, _TIMEOUT) as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = connection.makefile("rb").readline()
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise CommandError(
            f"no recorder is running in {folder}"
            + (
                f", and a recording that has ended is not changed; write {what} elsewhere"
                if what
                else "; name the folder of a running recording"
            ),
            ExitCode.OUTPUT,
        ) from error
    except TimeoutError as error:
        raise CommandError(
            f"the recorder in {folder} has not answered for {_TIMEOUT:g} s; check whether it "
            f"is stopped{look}, before you repeat it",
            ExitCode.OUTPUT,
        ) from error
    except PermissionError as error:
        raise CommandError(
            f"the recorder in {folder} cannot be asked: {folder / SOCKET_NAME} is for the user and "
            "the group that record; run the command as one of them",
            ExitCode.OUTPUT,
        ) from error
    except ConnectionError:
        line = b""  # it has ended meanwhile
    except OSError as error:
        raise CommandError(
            f"the recorder in {folder} cannot be asked: {error.strerror or one_line(error)}; check "
            f"{folder / SOCKET_NAME}",
            ExitCode.OUTPUT,
        ) from error
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise CommandError(
            f"the recorder in {folder} ended before it answered; find out why{look}",
            ExitCode.OUTPUT,
        ) from error
    return answer


# ``penstock alarm``: the alarms of a running recording, and what a person does with them.


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
    _refuse_without(answer, "done", f"{options.alarm} was not changed")
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
