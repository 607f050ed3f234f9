"""A mosquitto broker for the tests, on a port of its own, and what a subscriber gets from it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.record._mqtt.broker import Broker
from penstock.record._mqtt.packets import Message
from tests.python.integration.daemons import Daemon, free_port, program_or_skip
from tests.python.integration.partition import Network

__all__ = ["Mosquitto", "Subscriber", "mosquitto"]


class Mosquitto(Daemon):
    """A broker; ``url`` is its address for a sink."""

    def __init__(
        self, command: list[str], folder: Path, port: int, where: Network | None = None
    ) -> None:
        super().__init__(command, folder / "log", self._answers_connect)
        self.folder = folder
        self.port = port
        self._host = "127.0.0.1" if where is None else where.address
        self._beside = [] if where is None else where.command

    def url(self, prefix: str = "") -> str:
        return f"mqtt://{self._host}:{self.port}{prefix and '/'}{prefix}"

    def _answers_connect(self) -> bool:
        with socket.create_connection((self._host, self.port), 5):
            return True

    async def reader(
        self, topics: str, take: Callable[[Message], object], client: str = "reader"
    ) -> Broker:
        """A connection of Penstock's own that has subscribed; it can publish too."""
        connection = await Broker.connect(
            self._host,
            self.port,
            None,
            client=client,
            will=None,
            user=None,
            password=None,
            timeout=60,
            on_message=take,
        )
        await connection.subscribe(topics)
        return connection

    @contextmanager
    def subscriber(self, topics: str = "#", *, lasting: bool = False) -> Iterator[Subscriber]:
        """A subscriber that is told of each message from now on.

        A ``lasting`` one has a session that the broker keeps, as far as it keeps anything. It is in
        the broker's network, and not cut off with it.
        """
        program = program_or_skip("mosquitto_sub", "mosquitto-clients")
        command = [
            *self._beside,
            "stdbuf",
            "-oL",
            program,
            "-p",
            str(self.port),
            "-q",
            "1",
            "-t",
            topics,
            "-d",
        ]
        # mosquitto 2.0.11 restores no session of MQTT 5.
        command += ["-V", "mqttv311", "-c", "-i", "reader"] if lasting else ["-V", "mqttv5"]
        process = subprocess.Popen(
            [*command, "-F", "MESSAGE %r %t %p"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        subscriber = Subscriber(process)
        try:
            assert subscriber.subscribed.wait(30)
            yield subscriber
        finally:
            process.kill()
            process.wait()
            subscriber.thread.join()


class Subscriber:
    """What mosquitto_sub prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.messages: list[tuple[bool, str, str]] = []
        self.subscribed = threading.Event()
        self._process = process
        self._changed = threading.Condition()
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.closing(self._process.stdout) as lines:
            for line in lines:
                if line.startswith("MESSAGE "):
                    _, retained, topic, payload = line.rstrip("\n").split(" ", 3)
                    with self._changed:
                        self.messages.append((retained == "1", topic, payload))
                        self._changed.notify_all()
                elif "received SUBACK" in line:
                    self.subscribed.set()

    def rows(self, topics: str = "") -> list[dict[str, Any]]:
        """The objects of the messages so far whose topic begins so."""
        with self._changed:
            return [
                json.loads(text) for _, topic, text in self.messages if topic.startswith(topics)
            ]

    def wait_for(self, many: int, topics: str = "") -> list[dict[str, Any]]:
        """The objects, when there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.rows(topics)) >= many, 30)
        return self.rows(topics)

    def wait_for_rows(self, numbers: Iterable[int]) -> None:
        """Return when there is a message of each of these rows."""
        wanted = set(numbers)

        def there() -> bool:
            return wanted <= {row.get("row") for row in self.rows()}

        with self._changed:
            assert self._changed.wait_for(there, 30), wanted - {
                row.get("row") for row in self.rows()
            }


@contextmanager
def mosquitto(*settings: str, where: Network | None = None) -> Iterator[Mosquitto]:
    """A broker with further lines of configuration, started; in a network of its own if given."""
    program = program_or_skip("mosquitto", "mosquitto")
    with tempfile.TemporaryDirectory(prefix="penstock-mosquitto-") as name:
        folder, port = Path(name), free_port()
        lines = [f"listener {port} 127.0.0.1", "log_type error", *settings]
        if where is not None:
            lines.append(f"listener {port} {where.address}")
        if not any(line.startswith("allow_anonymous") for line in settings):
            lines.append("allow_anonymous true")
        if os.geteuid() == 0:
            lines.append("user root")
        config = folder / "mosquitto.conf"
        config.write_text("\n".join(lines) + "\n")
        command = [] if where is None else where.command
        broker = Mosquitto([*command, program, "-c", str(config)], folder, port, where)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()
