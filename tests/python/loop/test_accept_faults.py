"""accept(2) that fails: the loop backs off or passes over it, and goes on serving."""

from __future__ import annotations

import json

import pytest

from .conftest import RunScript

ACCEPT = """
import errno, json, socket, sys
from tests.python.loop.accept_faults import Unavailable, accept_fails

class Greeter(asyncio.Protocol):
    def connection_made(self, transport):
        transport.write(b"hello")
        transport.close()

async def main():
    loop = asyncio.get_running_loop()
    reports = []
    loop.set_exception_handler(lambda _, context: reports.append(context))
    server = await loop.create_server(Greeter, "127.0.0.1", 0)
    greetings = []
    for _ in range(3):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
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
        print(json.dumps(loop.run_until_complete(asyncio.wait_for(main(), 12))))
except Unavailable as exc:
    print("unavailable: seccomp notification:", exc)
loop.close()
"""


@pytest.mark.parametrize("error", ["ENFILE", "ENOBUFS", "ENOMEM"])
def test_running_out_of_a_system_resource_backs_off_logs_and_goes_on(
    run_script: RunScript, error: str
) -> None:
    done = run_script(ACCEPT, error, "1")
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("unavailable"):
        pytest.skip(done.stdout.strip())
    assert json.loads(done.stdout) == {
        "greetings": ["hello"] * 3,
        "messages": ["socket.accept() out of system resource"],
        "errors": [error],
    }


def test_an_aborted_connection_is_passed_over_in_silence(run_script: RunScript) -> None:
    done = run_script(ACCEPT, "ECONNABORTED", "20")
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("unavailable"):
        pytest.skip(done.stdout.strip())
    assert json.loads(done.stdout) == {"greetings": ["hello"] * 3, "messages": [], "errors": []}
