"""A blocking ioctl that is cancelled inside the kernel, on a real one: nothing is emulated here."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import anyio
import pytest

from penstock.serial import ttyioctl
from penstock.serial.pending_ioctl import begin_ioctl
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until

# Receiving a notification of seccomp blocks until a filtered call is made: here never. It is one of
# the few blocking ioctls that need no hardware. The filter lets every call pass but one unused one.
BLOCKED_IN_THE_KERNEL = """
import ctypes, os, select, struct, sys
from penstock._core import IoctlThread

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, SECCOMP_SET_MODE_FILTER, NEW_LISTENER = 38, 1, 8
SYS_seccomp = {"x86_64": 317, "aarch64": 277, "riscv64": 277}[os.uname().machine]
ALLOW, USER_NOTIF = 0x7FFF0000, 0x7FC00000
program = b"".join(
    struct.pack("HBBI", *line)
    for line in [(0x20, 0, 0, 0), (0x15, 0, 1, 9999), (0x06, 0, 0, USER_NOTIF), (0x06, 0, 0, ALLOW)]
)
code = ctypes.create_string_buffer(program)
filters = struct.pack("HxxxxxxP", 4, ctypes.addressof(code))
libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
listener = libc.syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, NEW_LISTENER, filters)
if listener < 0:
    print("skip")
    sys.exit()
SECCOMP_IOCTL_NOTIF_RECV = 0xC0502100
notification = ctypes.create_string_buffer(80)

def threads():
    return len(os.listdir("/proc/self/task"))

for _ in range(50):
    pending = IoctlThread(listener, SECCOMP_IOCTL_NOTIF_RECV, ctypes.addressof(notification))
    assert not select.select([pending.fileno()], [], [], 0.001)[0]
    pending.cancel()
    assert pending.fileno() == -1
    pending.cancel()
deadline = 60
import time
while threads() > 1 and deadline > 0:
    time.sleep(0.01)
    deadline -= 0.01
assert threads() == 1, "a thread is still in its ioctl"
assert len(os.listdir("/proc/self/fd")) < 10, "descriptors were left open"

pending = IoctlThread(listener, SECCOMP_IOCTL_NOTIF_RECV, ctypes.addressof(notification))
child = os.fork()
if child == 0:
    pending.cancel()  # has no thread here
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
del pending
print("done")
"""


def test_a_call_that_blocks_in_the_kernel_ends_when_it_is_cancelled() -> None:
    pytest.importorskip("penstock._core")
    if os.uname().machine not in ("x86_64", "aarch64", "riscv64"):
        pytest.skip("the number of seccomp(2) is not known here")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BLOCKED_IN_THE_KERNEL],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    if done.stdout.strip() == "skip":
        pytest.skip("the kernel offers no seccomp listener")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"


@pytest.mark.anyio
async def test_a_finished_call_is_readable_and_tells_its_error(peer: PtyPeer) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for request, fails in ((ttyioctl.termios.TCSBRK, False), (ttyioctl.TIOCMIWAIT, True)):
        pending = begin_ioctl(peer.fd, request, 1)
        await anyio.wait_readable(pending.fileno())
        if fails:
            with pytest.raises(OSError, match="ioctl"):
                pending.finish()
        else:
            pending.finish()
        pending.cancel()
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.anyio
async def test_an_emulated_call_that_is_cancelled_closes_what_it_holds(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    answer = threading.Event()
    driver.on_request = lambda request: answer.wait(60) and None
    descriptors = len(os.listdir("/proc/self/fd"))
    pending = begin_ioctl(peer.fd, ttyioctl.termios.TCSBRK, 1)
    await until(lambda: driver.requests)
    pending.cancel()
    answer.set()
    await until(lambda: len(os.listdir("/proc/self/fd")) == descriptors)
