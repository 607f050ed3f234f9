"""A blocking ioctl is cancelled inside the kernel, without emulation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from penstock.serial._tty import system_calls
from penstock.serial._tty.system_calls import begin_ioctl
from penstock.serial.testing import EmulatedDriver
from tests.python.conftest import not_sanitized
from tests.python.serial.pty_peer import PtyPeer, until

# Receiving a seccomp notification blocks until a filtered call is made, which never happens here.
# It is one of the few blocking ioctls that need no hardware. The filter allows every call except
# one that is not used.
PREPARED = """
import builtins, ctypes, os, random, select, struct, sys, termios, threading, time
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

def begin():
    return IoctlThread(listener, SECCOMP_IOCTL_NOTIF_RECV, ctypes.addressof(notification))

def everything_has_ended():
    deadline = time.monotonic() + 60
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    return len(os.listdir("/proc/self/task")) == 1 and len(os.listdir("/proc/self/fd")) < 12
"""

CANCELLED_WHILE_IT_BLOCKS = """
for _ in range(50):
    pending = begin()
    assert not select.select([pending.fileno()], [], [], 0.001)[0]
    pending.cancel()
    assert pending.fileno() == -1
    pending.cancel()
assert everything_has_ended()
print("done")
"""

# The cancellation falls at a random moment: before the thread runs, during the call, between the
# call and the thread's exit, or after it. Calls that return at once (a drain of an empty pty) are
# mixed with calls that never return.
CANCELLED_AT_ANY_MOMENT = """
_, quick = os.openpty()

def work(seed):
    chance = random.Random(seed)
    for _ in range(1000):
        ends = chance.random() < 0.8
        pending = IoctlThread(quick, termios.TCSBRK, 1) if ends else begin()
        until = time.perf_counter_ns() + chance.randrange(150_000)
        while time.perf_counter_ns() < until:
            pass
        pending.cancel()

workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert everything_has_ended()
print("done")
"""

MANY_AT_ONCE = """
for _ in range(5):
    many = [begin() for _ in range(200)]
    for pending in many:
        pending.cancel()
assert everything_has_ended()
print("done")
"""

LEFT_TO_A_FORKED_CHILD = """
for _ in range(20):
    pending = begin()
    child = os.fork()
    if child == 0:
        pending.cancel()  # the thread does not exist in the child
        own = begin()
        own.cancel()
        os._exit(0 if everything_has_ended() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert pending.fileno() >= 0
    del pending
assert everything_has_ended()
print("done")
"""

THE_PROGRAM_ENDS = """
kept = [begin() for _ in range(20)]
for pending in kept[::2]:
    pending.cancel()
builtins.kept = kept
print("done")
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(CANCELLED_WHILE_IT_BLOCKS, id="while it blocks"),
        pytest.param(CANCELLED_AT_ANY_MOMENT, id="at any moment"),
        pytest.param(MANY_AT_ONCE, id="many at once"),
        pytest.param(LEFT_TO_A_FORKED_CHILD, id="in a forked child"),
        pytest.param(THE_PROGRAM_ENDS, id="as the program ends"),
    ],
)
def test_blocked_ioctl_ends_when_it_is_cancelled(program: str) -> None:
    succeeds(program)


# glibc's pthread_detach reads the descriptor of a thread that may free it meanwhile (bug 19951).
# The kernel must stop the caller between two instructions for that, so no number of tries shows it:
# the thread must not be detached by another one at all.
REFUSES_TO_DETACH_ANOTHER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

int pthread_detach(pthread_t thread) {
    static const char text[] = "another thread was detached\\n";
    if (!pthread_equal(thread, pthread_self())) {
        _exit(write(2, text, sizeof text - 1) > 0 ? 9 : 10);
    }
    return ((int (*)(pthread_t))dlsym(RTLD_NEXT, "pthread_detach"))(thread);
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@not_sanitized("the sanitizer's library must be the first that is preloaded")
def test_cancelled_thread_is_not_detached_by_the_one_that_cancels_it(tmp_path: Path) -> None:
    source, library = tmp_path / "refusing.c", tmp_path / "refusing.so"
    source.write_text(REFUSES_TO_DETACH_ANOTHER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    succeeds(CANCELLED_WHILE_IT_BLOCKS, LD_PRELOAD=str(library))


def succeeds(program: str, **variables: str) -> None:
    pytest.importorskip("penstock._core")
    if os.uname().machine not in ("x86_64", "aarch64", "riscv64"):
        pytest.skip("the system call number of seccomp(2) is unknown on this machine")
    search = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": search, **variables}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PREPARED + program],
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
async def test_finished_ioctl_is_readable_and_has_its_error(peer: PtyPeer) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for request, fails in ((system_calls.termios.TCSBRK, False), (system_calls.TIOCMIWAIT, True)):
        pending = begin_ioctl(peer.fd, request, 1)
        await anyio.wait_readable(pending.fileno())
        if fails:
            with pytest.raises(OSError, match="ioctl"):
                pending.finish()
        else:
            pending.finish()
        pending.cancel()
    # The thread's own descriptor, after the thread has ended too.
    await until(lambda: len(os.listdir("/proc/self/fd")) == descriptors)


@pytest.mark.anyio
async def test_cancelled_emulated_ioctl_closes_its_descriptors(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    answer = threading.Event()
    driver.on_request = lambda request: answer.wait(60) and None
    descriptors = len(os.listdir("/proc/self/fd"))
    pending = begin_ioctl(peer.fd, system_calls.termios.TCSBRK, 1)
    await until(lambda: driver.requests)
    pending.cancel()
    answer.set()
    await until(lambda: len(os.listdir("/proc/self/fd")) == descriptors)
