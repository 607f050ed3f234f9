"""The blocking port in a forked child."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress

from tests.python.serial.pty_peer import PtyPeer
from tests.python.serial.rfc2217_serving import served_by_rfc2217

FORKING = """
import os, sys, threading
from penstock.serial.sync import open_serial_port

port = open_serial_port(sys.argv[1])
waiting = threading.Thread(target=port.receive)
waiting.start()
while not port._operations.receiving.lock.locked():
    pass
child = os.fork()
if child == 0:  # a lock is held by a thread that the child does not have
    try:
        port.send(b"child asks\\r")
        assert port.receive_until(b"\\r", timeout=60) == b"answer"
        port.close()  # neither unlocks nor resets what the parent uses
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert port.is_open
port.send(b"parent asks\\r")
waiting.join()
port.close()
"""


def test_forked_child_can_use_the_port_and_leaves_it_to_the_parent(peer: PtyPeer) -> None:
    os.set_blocking(peer.fd, True)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKING, peer.path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert os.read(peer.fd, 100) == b"child asks\r"
        # The parent's thread waits too, and the first of the two to wake takes the answer. So
        # answers are sent until both have received one.
        os.set_blocking(peer.fd, False)
        while process.poll() is None:
            with suppress(BlockingIOError):
                os.read(peer.fd, 100)
            with suppress(BlockingIOError):
                os.write(peer.fd, b"answer\r")
            time.sleep(0.001)
        assert process.wait(60) == 0, process.stderr and process.stderr.read()
    finally:
        process.kill()
        process.communicate()


FORKING_LOOP = """
import os, sys
from penstock.serial.sync import open_serial_port

for url in ("loop://", "spy://loop://?file=/dev/null"):
    with open_serial_port(url) as port:
        port.send(b"before")
        child = os.fork()
        if child == 0:
            assert port.receive(timeout=60) == b"before"
            port.send(b"child")
            assert port.receive(timeout=60) == b"child"
            port.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        port.send(b" and after")
        assert port.receive_exactly(16, timeout=60) == b"before and after"
"""


def test_forked_child_has_its_own_loop_port() -> None:
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING_LOOP],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        check=True,
        timeout=120,
    )


FORKING_CLIENT = """
import os, sys
from penstock.serial import SerialDisconnectedError
from penstock.serial.sync import open_serial_port

port = open_serial_port(sys.argv[1])
child = os.fork()
if child == 0:
    calls = [
        lambda: port.send(b"child"),
        port.receive,
        lambda: port.configure(port.config),
        port.modem_lines,
        port.reset_input_buffer,
        port.drain,
    ]
    for call in calls:
        try:
            call()
        except SerialDisconnectedError as error:
            assert "belongs to the parent" in str(error) or "disconnected" in str(error), error
        else:
            os._exit(1)
    port.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
port.configure(port.config)
port.send(b"parent")
assert port.receive(timeout=60) == b"answer"
port.close()
"""


def test_forked_child_leaves_a_connection_to_its_parent(peer: PtyPeer) -> None:
    with served_by_rfc2217(peer.path) as url:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", FORKING_CLIENT, url],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        os.set_blocking(peer.fd, True)
        assert os.read(peer.fd, 100) == b"parent"
        peer.write(b"answer")
        assert process.wait(60) == 0
