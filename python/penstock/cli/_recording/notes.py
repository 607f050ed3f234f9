"""What other processes bring into a running recording: what ``penstock note`` talks to.

A client sends one line of JSON, ``{"note": "bottle changed", "device": "argon", "author": "Ann"}``;
the last two may be absent. The answer is one line too: ``{"noted": "ann: bottle changed"}`` once
the note waits among the rows of the recording, or ``{"refused": "the reason"}``. ``{"acknowledged":
["below limit"], "device": "argon"}`` is what the page of a stored recording sends; the answer is
``{"done": "argon: 1 alarm"}``.

Who writes it is what the kernel says (SO_PEERCRED in unix(7)), not the client: another ``author``
is recorded with that name beside it.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import socket
import struct
from pathlib import Path
from typing import Any

import anyio

from penstock._plain_task_group import plain_task_group
from penstock.cli._errors import one_line
from penstock.cli._recording.alarms import AlarmStates
from penstock.cli._recording.control_socket import SOCKET_NAME, listening_in
from penstock.record import RecordError, Recording

LONGEST_NOTE = 4000
"""Letters."""
_LONGEST_AUTHOR = 100
_LONGEST_LINE = 65536
_CLIENTS = 64
_MOST_ALARMS = 100
_TIMEOUT = 5.0
"""Seconds for a client to send its line and to read the answer."""
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SHORTAGE_PAUSE_S = 0.5


class _RefusedError(Exception):
    """A note that is not recorded; the text is the reason."""


async def take_notes(recording: Recording, folder: Path, alarms: AlarmStates | None = None) -> None:
    """Record the notes that come by the socket in ``folder``, until it is cancelled.

    Requests about alarms are answered too, if the run keeps their states in ``alarms``.

    Where no socket can be made (a file system without them, another recorder), the recording goes
    on with an event ``notes_off``.
    """
    try:
        with listening_in(folder) as listener:
            async with plain_task_group() as clients:
                free = anyio.Semaphore(_CLIENTS)
                while True:
                    await free.acquire()
                    try:
                        connection = await _accepted(listener)
                    except BaseException:
                        free.release()
                        raise
                    clients.start_soon(_serve, recording, connection, free, alarms)
    except OSError as error:
        recording.note(
            f"notes from other processes are not accepted: {folder / SOCKET_NAME}: "
            f"{error.strerror or one_line(error)}",
            kind="notes_off",
        )


async def _accepted(listener: socket.socket) -> socket.socket:
    while True:
        await anyio.wait_readable(listener)
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            continue
        except OSError as error:
            if error.errno not in _SHORTAGES:
                raise
            await anyio.sleep(_SHORTAGE_PAUSE_S)  # the client waits meanwhile
            continue
        connection.setblocking(False)
        return connection


async def _serve(
    recording: Recording,
    connection: socket.socket,
    free: anyio.Semaphore,
    alarms: AlarmStates | None,
) -> None:
    try:
        with connection, anyio.move_on_after(_TIMEOUT):
            try:
                request = _request(await _line(connection))
                answer: dict[str, Any]
                if "alarm" in request or "alarms" in request:
                    answer = await _answer_about_alarms(recording, request, connection, alarms)
                elif "acknowledged" in request:
                    answer = {"done": _acknowledge(recording, request, connection, alarms)}
                else:
                    answer = {"noted": _note(recording, request, connection)}
            except _RefusedError as reason:
                answer = {"refused": str(reason)}
            except OSError:
                raise
            except Exception as error:
                # A recording of weeks is not to end by one odd request.
                failure = f"{type(error).__name__}: {one_line(error)}"
                recording.note(f"a request was not handled: {failure}", kind="request_failed")
                answer = {"refused": f"the recorder could not handle it: {failure}"}
            await _send(connection, json.dumps(answer).encode() + b"\n")
    except OSError:
        pass  # the client has gone
    finally:
        free.release()


async def _line(connection: socket.socket) -> bytes:
    data = b""
    while b"\n" not in data:
        if len(data) > _LONGEST_LINE:
            raise _RefusedError(f"the request is longer than {_LONGEST_LINE} bytes")
        await anyio.wait_readable(connection)
        try:
            piece = connection.recv(_LONGEST_LINE)
        except BlockingIOError:
            continue
        if not piece:
            break
        data += piece
    return data.partition(b"\n")[0]


async def _send(connection: socket.socket, data: bytes) -> None:
    while data:
        try:
            data = data[connection.send(data) :]
        except BlockingIOError:
            await anyio.wait_writable(connection)


async def _answer_about_alarms(
    recording: Recording,
    request: dict[str, Any],
    connection: socket.socket,
    alarms: AlarmStates | None,
) -> dict[str, Any]:
    if alarms is None:
        raise _RefusedError(
            "the run keeps no states of alarms: give [alarm] a webhook, mqtt or a book"
        )
    if "alarms" in request:
        return {"alarms": alarms.listed()}
    try:
        return {"done": await alarms.act(request, _author(request, connection), recording)}
    except RecordError as error:
        raise _RefusedError(one_line(error)) from None


def _author(request: dict[str, Any], connection: socket.socket) -> str:
    user = _user(connection)
    if request.get("author") is None:
        return user
    author = _text(request["author"], "the author", _LONGEST_AUTHOR, "")
    return author if author == user else f"{author} ({user})"


def _note(recording: Recording, request: dict[str, Any], connection: socket.socket) -> str:
    text = _text(request.get("note"), "it", LONGEST_NOTE, "\n\t")
    message = f"{_author(request, connection)}: {text}"
    _record(recording, message, request.get("device") or "", "note")
    return message


def _acknowledge(
    recording: Recording,
    request: dict[str, Any],
    connection: socket.socket,
    alarms: AlarmStates | None,
) -> str:
    texts, device = request["acknowledged"], request.get("device") or ""
    if not isinstance(texts, list) or not 0 < len(texts) <= _MOST_ALARMS:
        raise _RefusedError(f"the request must name 1 to {_MOST_ALARMS} alarms")
    texts = [_text(text, "an alarm", LONGEST_NOTE, "\n\t") for text in texts]
    author = _author(request, connection)
    for text in texts:
        _record(recording, f"{author}: {text}", device, "alarm_acknowledged")
    if alarms is not None:
        alarms.acknowledge_all(device, author)
    return f"{device}: {len(texts)} {'alarm' if len(texts) == 1 else 'alarms'}"


def _record(recording: Recording, message: str, device: object, kind: str) -> None:
    if recording.summary.finished_at is not None:
        raise _RefusedError("the recording has just ended")
    try:
        recording.note(message, device=device, kind=kind)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        names = ", ".join(recording.summary.devices)
        raise _RefusedError(f"there is no device {device!r}; the devices are {names}") from None


def _request(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise _RefusedError("the request is not a line of JSON") from None
    if not isinstance(request, dict):
        raise _RefusedError("the request is not a JSON object")
    return request


def _text(value: object, name: str, longest: int, allowed: str) -> str:
    if not isinstance(value, str):
        raise _RefusedError(f"{name} is not text")
    text = value.strip()
    if not text:
        raise _RefusedError(f"{name} is empty")
    if len(text) > longest:
        raise _RefusedError(f"{name} is longer than {longest} letters")
    if any((each < " " and each not in allowed) or "\x7f" <= each <= "\x9f" for each in text):
        raise _RefusedError(f"{name} has control characters")
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise _RefusedError(f"{name} is not UTF-8")
    return text


def _user(connection: socket.socket) -> str:
    _, number, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}" if number != os.getuid() else "the recorder's user"
