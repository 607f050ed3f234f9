"""Failures of accept(2): the loop backs off or ignores them, and continues to serve."""

from __future__ import annotations

import json

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


every_listener = pytest.mark.parametrize("kind", ["tcp", "unix", "tls"])


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
    done = run_script(ACCEPT, error, "1", kind)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("unavailable"):
        pytest.skip(done.stdout.strip())
    assert json.loads(done.stdout) == {
        "greetings": ["hello"] * 3,
        "messages": ["socket.accept() out of system resource"],
        "errors": [error],
    }


@every_listener
def test_an_aborted_connection_is_ignored_without_a_log(run_script: RunScript, kind: str) -> None:
    done = run_script(ACCEPT, "ECONNABORTED", "20", kind)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("unavailable"):
        pytest.skip(done.stdout.strip())
    assert json.loads(done.stdout) == {"greetings": ["hello"] * 3, "messages": [], "errors": []}
