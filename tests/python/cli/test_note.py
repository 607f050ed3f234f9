"""``penstock note``: notes of other processes in a running recording."""

from __future__ import annotations

import csv
import errno
import getpass
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import penstock.record
from penstock.cli._recording.alarms import AlarmStates
from penstock.cli._recording.control_socket import SOCKET_NAME, connected_to, listening_in
from penstock.cli._recording.notes import LONGEST_NOTE, take_notes
from penstock.cli._recording.plan import AlarmPlan
from penstock.record import check_seals
from tests.python.cli.conftest import Command, Running

Start = Callable[..., Running]
USER = getpass.getuser()


@pytest.fixture
def run(start: Start, simulator: Any, tmp_path: Path) -> Running:
    """A recording into ``out`` that is running."""
    _, (port,) = simulator("A:500")
    (tmp_path / "run.toml").write_text(
        '[record]\nrate_hz = 20\nout = "out"\nformats = ["csv", "sqlite"]\n'
        f'[[device]]\nname = "argon"\nport = "{port}"\nbaudrate = 115200\ntimeout = 10\n'
    )
    running = start("record", "run.toml", "--no-plot")
    running.wait_for("argon.*SCCM")
    return running


def notes_in(folder: Path) -> list[tuple[str, str]]:
    rows: list[dict[str, str]] = []
    for part in sorted(folder.glob("samples*.csv")):  # a resumed run may begin another part
        with part.open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    return [(row["device"], row["message"]) for row in rows if row["event"] == "note"]


@pytest.mark.usefixtures("native_loop")
def test_notes_are_rows_of_the_recording_and_sealed_with_it(
    run: Running, penstock: Command, tmp_path: Path
) -> None:
    done = penstock("note", "out", "bottle", "changed, 48 bar")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"noted in out: {USER}: bottle changed, 48 bar\n"
    done = penstock(
        "note", "out/samples.csv", "--device", "argon", "--author", "Änne", "Ventil\nzu"
    )
    assert (done.returncode, done.stderr) == (0, "")
    run.process.send_signal(signal.SIGTERM)
    code, _, errors = run.finish()
    assert (code, errors) == (143, "")
    out = tmp_path / "out"
    assert notes_in(out) == [
        ("", f"{USER}: bottle changed, 48 bar"),
        ("argon", f"Änne ({USER}): Ventil\nzu"),
    ]
    for name in ("samples.csv", "samples.sqlite"):
        assert [found.unchanged for found in check_seals(out / name)] == [True]
    assert not (out / SOCKET_NAME).exists()
    events = penstock_events(out)
    assert events.count("note") == 2


def penstock_events(folder: Path) -> list[str]:
    found: list[str] = penstock.record.open(folder).events()["event"].to_pylist()
    return found


@pytest.mark.usefixtures("native_loop")
def test_what_cannot_be_noted_is_refused_with_the_reason(
    run: Running, penstock: Command, tmp_path: Path
) -> None:
    for arguments, reason in (
        (("out", "--device", "neon", "x"), "there is no device 'neon'; the devices are argon"),
        (("out", "  "), "it is empty"),
        (("out", "a\x1b[31m"), "it has control characters"),
        (("out", "a" * (LONGEST_NOTE + 1)), f"it is longer than {LONGEST_NOTE} letters"),
    ):
        done = penstock("note", *arguments)
        assert done.returncode == 2
        assert done.stderr == f"penstock: the note was not recorded: {reason}\n"
    run.process.send_signal(signal.SIGTERM)
    run.finish()
    assert notes_in(tmp_path / "out") == []


@pytest.mark.usefixtures("native_loop")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_a_recording_that_has_ended_is_not_changed(
    run: Running, penstock: Command, tmp_path: Path, signum: int
) -> None:
    run.process.send_signal(signum)
    run.process.wait()
    run.finish()
    before = {path: path.lstat() for path in (tmp_path / "out").iterdir()}
    done = penstock("note", "out", "too late")
    assert done.returncode == 5
    assert "no recorder is running in out" in done.stderr
    assert {path: path.lstat() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.usefixtures("native_loop")
def test_a_recorder_that_was_killed_leaves_a_name_that_the_next_one_takes(
    run: Running, penstock: Command, start: Start, tmp_path: Path
) -> None:
    run.process.kill()
    run.finish()
    assert (tmp_path / "out" / SOCKET_NAME).is_socket()
    again = start("record", "run.toml", "--no-plot", "--resume")
    again.wait_for("argon.*SCCM")
    assert penstock("note", "out", "resumed").returncode == 0
    again.process.send_signal(signal.SIGTERM)
    again.finish()
    assert notes_in(tmp_path / "out")[-1] == ("", f"{USER}: resumed")
    assert not (tmp_path / "out" / SOCKET_NAME).exists()


def test_a_folder_that_is_missing_is_told(penstock: Command) -> None:
    done = penstock("note", "nowhere", "x")
    assert done.returncode == 5
    assert "nowhere does not exist" in done.stderr


# -- the two ends, without a recorder ---------------------------------------------------------


class Rows:
    """What takes notes, as a recording does."""

    class summary:
        finished_at: Any = None

    names = ("argon",)

    def __init__(self) -> None:
        self.notes: list[tuple[str, str, str]] = []

    def note(self, message: str, *, device: str = "", kind: str = "note") -> None:
        if device and device not in self.names:
            raise ValueError(device)
        self.notes.append((kind, device, message))


def serve(folder: Path, ask: Callable[[], None], book: Path | None = None) -> Rows:
    """Call ``ask`` in a thread while notes are taken, and alarms acknowledged in ``book``."""
    rows = Rows()

    async def main() -> None:
        alarms = None if book is None else AlarmStates(AlarmPlan(book=book), folder)
        try:
            await take(alarms)
        finally:
            if alarms is not None:
                await anyio.to_thread.run_sync(alarms.close)

    async def take(alarms: AlarmStates | None) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_notes, rows, folder, alarms)
            while not (folder / SOCKET_NAME).exists() and not rows.notes:
                await anyio.lowlevel.checkpoint()
            await anyio.to_thread.run_sync(ask)
            tasks.cancel_scope.cancel()

    anyio.run(main)
    return rows


def request(folder: Path, data: bytes) -> bytes:
    with connected_to(folder, 10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").read()


def test_a_path_of_any_length_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 120) / ("b" * 200)
    folder.mkdir(parents=True)
    answers: list[bytes] = []
    rows = serve(folder, lambda: answers.append(request(folder, b'{"note": "hello"}\n')))
    assert json.loads(answers[0]) == {"noted": f"{USER}: hello"}
    assert rows.notes == [("note", "", f"{USER}: hello")]
    assert not (folder / SOCKET_NAME).exists()


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"[]\n", b"{\n", b'{"note": 5}\n', b"\xff\n", b"[" * 70_000, b'"x"\n']
)
def test_a_foreign_client_is_refused_and_the_next_one_served(tmp_path: Path, data: bytes) -> None:
    answers: list[bytes] = []

    def ask() -> None:
        try:
            answers.append(request(tmp_path, data))
        except ConnectionError:  # refused before all of it was sent
            answers.append(b'{"refused": ""}')
        answers.append(request(tmp_path, b'{"note": "hello"}\n'))

    rows = serve(tmp_path, ask)
    assert "refused" in json.loads(answers[0])
    assert [message for *_, message in rows.notes] == [f"{USER}: hello"]


@pytest.mark.parametrize(
    "data",
    [
        b'{"alarm": "argon/Flow/1", "do": []}',
        b'{"alarm": "argon/Flow/1", "do": "shelve", "seconds": 1' + b"0" * 400 + b"}",
        b'{"alarm": "argon/Flow/1", "do": "shelve", "seconds": true}',
        b'{"alarm": ["argon"], "do": "acknowledge"}',
        b'{"acknowledged": ["x"], "device": []}',
        b'{"acknowledged": ["x"], "device": ["argon"]}',
    ],
)
def test_no_request_about_alarms_ends_the_recording(tmp_path: Path, data: bytes) -> None:
    answers: list[bytes] = []

    def ask() -> None:
        for line in (data, b'{"note": "hello"}'):
            answers.append(request(tmp_path, line + b"\n"))

    rows = serve(tmp_path, ask, tmp_path / "alarms.json")
    assert json.loads(answers[1]) == {"noted": f"{USER}: hello"}
    assert rows.notes[-1] == ("note", "", f"{USER}: hello")
    if b'"device": []' not in data:  # which is none
        assert "refused" in json.loads(answers[0])


def test_a_defect_in_a_request_is_an_event_and_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bytes] = []

    def fail(*_: object) -> str:
        raise RuntimeError("odd")

    monkeypatch.setattr("penstock.cli._recording.notes._note", fail)
    rows = serve(tmp_path, lambda: answers.append(request(tmp_path, b'{"note": "hello"}\n')))
    assert json.loads(answers[0]) == {
        "refused": "the recorder could not handle it: RuntimeError: odd"
    }
    assert rows.notes == [("request_failed", "", "a request was not handled: RuntimeError: odd")]


def test_notes_are_taken_again_after_a_shortage_of_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept = socket.socket.accept
    shortages = [errno.EMFILE, errno.ENFILE]

    def accept_later(listener: socket.socket) -> Any:
        if shortages:
            raise OSError(shortages.pop(), "too many open files")
        return accept(listener)

    monkeypatch.setattr("penstock.cli._recording.notes._SHORTAGE_PAUSE_S", 0.01)
    monkeypatch.setattr(socket.socket, "accept", accept_later)
    answers: list[bytes] = []
    rows = serve(tmp_path, lambda: answers.append(request(tmp_path, b'{"note": "hello"}\n')))
    assert (shortages, len(rows.notes)) == ([], 1)
    assert b"noted" in answers[0]


def test_clients_that_say_nothing_do_not_keep_others_from_noting(tmp_path: Path) -> None:
    def ask() -> None:
        silent = []
        for _ in range(8):
            context = connected_to(tmp_path, 10)
            context.__enter__()
            silent.append(context)
        assert b"noted" in request(tmp_path, b'{"note": "hello"}\n')
        for context in silent:
            context.__exit__(None, None, None)

    assert len(serve(tmp_path, ask).notes) == 1


def test_one_recorder_listens_in_a_folder(tmp_path: Path) -> None:
    with listening_in(tmp_path):
        rows = serve(tmp_path, lambda: None)
        ((kind, _, message),) = rows.notes
        assert kind == "notes_off"
        assert "another process listens" in message
        assert (tmp_path / SOCKET_NAME).is_socket()


def test_a_file_of_that_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / SOCKET_NAME).write_text("mine")
    rows = serve(tmp_path, lambda: None)
    assert rows.notes[0][0] == "notes_off"
    assert [path.name for path in tmp_path.iterdir()] == [SOCKET_NAME]
    assert (tmp_path / SOCKET_NAME).read_text() == "mine"


def test_owner_and_group_may_write_notes(tmp_path: Path) -> None:
    with listening_in(tmp_path):
        assert os.stat(tmp_path / SOCKET_NAME).st_mode & 0o777 == 0o660
