"""The kernel's constants: the headers' values, and the table for builds without the extension."""

from __future__ import annotations

import os
import platform
import pty
import subprocess
import sys
import termios

import pytest

from penstock.serial._tty import system_calls
from penstock.serial._tty.termios2 import (
    ABI,
    LineSettings,
    SerialAbi,
    abi_by_table,
    require_known_abi,
)


def test_table_agrees_with_this_machines_headers() -> None:
    core = pytest.importorskip("penstock._core")
    table = abi_by_table(platform.machine())
    if table is None:
        pytest.skip("this processor is not in the table")
    assert SerialAbi(**core.serial_abi) == table


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("x86_64", (0x802C542A, 0x1000, 44, 17)),
        ("aarch64", (0x802C542A, 0x1000, 44, 17)),
        ("mips64", (0x4030542A, 0x1000, 48, 17)),
        ("ppc64le", (0x402C7413, 0x1F, 44, 16)),
    ],
)
def test_request_numbers_differ_between_families(machine: str, expected: tuple[int, ...]) -> None:
    abi = abi_by_table(machine)
    assert abi is not None
    assert (abi.TCGETS2, abi.BOTHER, abi.termios_size, abi.control_chars_offset) == expected
    # _IOR and _IOW encode the size of the structure in bits 16 to 28.
    assert (abi.TCGETS2 >> 16) & 0x1FFF == (abi.TCSETS2 >> 16) & 0x1FFF == abi.termios_size
    assert abi.output_rate_offset + 4 == abi.termios_size
    assert abi.rates[9600] == 13
    assert abi.rates[115_200] == abi.rates[57_600] + 1
    assert abi.BOTHER not in abi.rates.values()


@pytest.mark.parametrize("machine", ["sparc64", "alpha", "parisc64"])
def test_unknown_family_has_no_table_entry(machine: str) -> None:
    assert abi_by_table(machine) is None


def test_structure_layout_matches_the_c_library() -> None:
    require_known_abi()
    controller, follower = pty.openpty()
    try:
        wanted = termios.tcgetattr(follower)
        settings = LineSettings.unpack(system_calls.get_settings(follower))
        # Since glibc 2.42 the C library stores the rates separately and not in c_cflag.
        rates = ABI.CBAUD | ABI.CBAUD << 16 if termios.B9600 == 9600 else 0
        assert [settings.iflag, settings.oflag, settings.lflag] == [*wanted[:2], wanted[3]]
        assert settings.cflag & ~rates == wanted[2] & ~rates
        assert settings.pack() == system_calls.get_settings(follower)
        assert settings.control_chars[termios.VSTART] == ord(wanted[6][termios.VSTART])
        assert settings.output_rate == 38_400
        assert len(settings.control_chars) == ABI.control_chars_count
    finally:
        os.close(controller)
        os.close(follower)


WITHOUT = """
import os, pty, sys
sys.modules["penstock._core"] = None  # as if it were not built
from penstock.serial._tty import system_calls
from penstock.serial.sync import open_serial_port
assert not system_calls._has_native
controller, follower = pty.openpty()
with open_serial_port(os.ttyname(follower), timeout=5) as port:
    os.write(controller, b"x")
    assert port.receive(timeout=60) == b"x"
    port.send(b"y")
    port.drain_exact(timeout=60)
    assert os.read(controller, 1) == b"y"
"""


def test_port_works_without_the_extension() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([sys.executable, "-c", WITHOUT], env=environment, timeout=60, check=True)
