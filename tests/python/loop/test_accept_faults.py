"""Failures of accept(2): the loop backs off or ignores them, and continues to serve."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import RunScript

ACCEPT = """
import errno, json, os, sys
from tests.python.loop.accept_faults import Unavailable, accept_fails
from tests.python.loop.certificates import client_context, server_context

kind = sys.argv[3]

class Greeter(asyncio.Protocol):
    def connection_made(self, transport):
        transport.write(b"hello")
        transport.close()

async def main():
    loop = asyncio.get_running_loop()
    reports = []
    loop.set_exception_handler(lambda _, context: reports.append(context))
    if kind == "unix":
        server = await loop.create_unix_server(Greeter, "\\0" + os.urandom(8).hex())
    else:
        tls = server_context() if kind == "tls" else None
        server = await loop.create_server(Greeter, "127.0.0.1", 0, ssl=tls)
    address = server.sockets[0].getsockname()
    greetings = []
    for _ in range(3):
        if kind == "unix":
            reader, writer = await asyncio.open_unix_connection(address)
        elif kind == "tls":
            reader, writer = await asyncio.open_connection(
                *address, ssl=client_context(), server_hostname="localhost"
            )
        else:
            reader, writer = await asyncio.open_connection(*address)
        greetings.append((await reader.read()).decode())
        writer.close()
    server.close()
    return {
        "greetings": greetings,
        "messages": [report["message"] for report in reports],
        "errors": [errno.errorcode[report["exception"].errno] for report in reports],
    }

loop = new_loop()
try:
    with accept_fails(getattr(errno, sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(loop.run_until_complete(asyncio.wait_for(main(), 30))))
except Unavailable as exc:
    print("unavailable: seccomp notification:", exc)
loop.close()
"""


def served(run_script: RunScript, error: str, times: int, kind: str) -> Any:
    """What the script prints."""
    done = run_script(ACCEPT, error, str(times), kind)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("unavailable"):
        pytest.skip(done.stdout.strip())
    return json.loads(done.stdout)


def paused(error: str) -> dict[str, list[str]]:
    return {
        "greetings": ["hello"] * 3,
        "messages": ["socket.accept() out of system resource"],
        "errors": [error],
    }


SILENT: dict[str, list[str]] = {"greetings": ["hello"] * 3, "messages": [], "errors": []}


@pytest.mark.parametrize(
    ("error", "kind"),
    # Each waits for a second.
    [
        ("EMFILE", "unix"),
        ("EMFILE", "tls"),
        ("ENFILE", "tcp"),
        ("ENOBUFS", "unix"),
        ("ENOMEM", "tcp"),
    ],
)
def test_exhausting_a_system_resource_backs_off_logs_and_continues(
    run_script: RunScript, error: str, kind: str
) -> None:
    assert served(run_script, error, 1, kind) == paused(error)


@pytest.mark.usefixtures("only_penstock")
def test_a_firewall_that_denies_a_connection_backs_off_too(run_script: RunScript) -> None:
    assert served(run_script, "EPERM", 1, "tcp") == paused("EPERM")


@pytest.mark.parametrize("kind", ["tcp", "unix", "tls"])
def test_an_aborted_connection_is_ignored_without_a_log(run_script: RunScript, kind: str) -> None:
    assert served(run_script, "ECONNABORTED", 20, kind) == SILENT


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize("error", ["ENETDOWN", "EPROTO", "EHOSTUNREACH"])
def test_an_error_of_the_network_is_ignored_like_an_aborted_connection(
    run_script: RunScript, error: str
) -> None:
    assert served(run_script, error, 20, "tcp") == SILENT
