"""Recorders into PostgreSQL that are killed, while the server answers and while it is away."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import psycopg

from penstock.record import PostgresSink, Sink
from tests.python.integration.daemons import PATIENT
from tests.python.integration.postgres import PostgresServer
from tests.python.record.file_calls import kill_at_file_call
from tests.python.record.killed_recorders import (
    Accepted,
    Target,
    killed_after,
    new_folder,
    record_into,
    run_and_check,
)

__all__ = ["Table", "kill_at_random_beside_a_server", "kill_at_spool_call"]


@dataclass(frozen=True)
class Table(Target):
    """A recording in a database, and its spool."""

    dsn: str
    spool: Path

    def sink(self, **options: Any) -> Sink:
        # The server answers, late on a loaded machine; where it is away, nothing is waited for.
        return PostgresSink(self.dsn, spool=self.spool, **PATIENT, **options)

    def flows(self) -> list[float]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            found = connection.execute("SELECT to_regclass('samples')").fetchone()
            if found is None or found[0] is None:
                return []
            rows = connection.execute('SELECT "Mass_Flow" FROM samples ORDER BY t_mono_ns')
            return [row[0] for row in rows]

    def mend(self) -> None:
        """Send what is in the spool, as the next sink with it does."""

        async def send() -> None:
            sink = self.sink(append=True)
            await sink.open()
            await sink.close()

        anyio.run(send)

    def empty(self) -> None:
        """Make the database as new."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def kill_at_spool_call(server: PostgresServer, number: int, root: Path) -> bool:
    """Kill a recorder at its call ``number`` that changes the spool.

    The server is away from the first row on, and back for the check. Returns False when there are
    fewer calls.
    """
    folder = new_folder(root)
    target = Table(server.dsn(), folder / "spool")
    target.empty()
    there, here = socket.socketpair()

    def gone() -> None:
        there.send(b"1")
        there.recv(1)

    def recorder(accepted: Accepted) -> None:
        kill_at_file_call(number)
        record_into(target, accepted, batches=4, refused=True, opened=gone, loss_rows=0)

    def end(pid: int) -> None:
        there.close()
        stopped = bool(here.recv(1))
        if stopped:
            server.stop()
            here.send(b"1")
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if stopped:
            server.start()

    try:
        return run_and_check(target, recorder, 0, end=end) != 0
    finally:
        here.close()
        shutil.rmtree(folder)


def kill_at_random_beside_a_server(
    server: PostgresServer, chance: random.Random, root: Path
) -> None:
    """Kill a recorder within its first second; the server may be stopped before, or after that."""
    folder = new_folder(root)
    target = Table(server.dsn(), folder / "spool")
    target.empty()
    window = chance.choice([0, 25, 1000])
    seconds = chance.choice([0.01, 0.1, 1.0])
    away = chance.choice(["never", "before", "meanwhile"])
    moment = chance.uniform(0.001, 1.0)

    def end(pid: int) -> None:
        time.sleep(moment)
        if away == "before":
            server.stop()
            time.sleep(chance.uniform(0.0, 0.3))
        elif away == "meanwhile":
            server.stop()
            server.start()
        os.kill(pid, signal.SIGKILL)
        if away == "before":
            server.start()

    run_and_check(
        target,
        lambda accepted: record_into(
            target, accepted, batches=None, refused=True, loss_rows=window, loss_interval=seconds
        ),
        window,
        end=end if away != "never" else killed_after(moment),
    )
    shutil.rmtree(folder)
