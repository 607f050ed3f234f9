"""Tries an installed Penstock: ``PYTHON -I scripts/packaging/try_installed.py [--without PART]``.

It needs AnyIO alone, and runs in an empty folder. Each part prints one line. The exit code is 0 if
all of them work and Penstock was not imported from a source tree.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distribution, version
from pathlib import Path

import penstock
from penstock import files
from penstock.alicat import AlicatManager
from penstock.record import CsvSink, pipe, record
from penstock.serial import SerialConfig, open_serial_port
from penstock.sim import Bus, MassFlowController, open_pty
from penstock.uring import UringCtx, probe


def check_origin() -> str:
    """Penstock is the installed distribution, and its metadata are those of its modules."""
    package = Path(penstock.__file__).resolve().parent
    installed = Path(str(distribution("penstock").locate_file("penstock"))).resolve()
    assert package == installed, f"{package} was imported in place of {installed}"
    assert "site-packages" in package.parts, f"{package} is no installed package"
    assert penstock.__version__ == version("penstock")
    licences = {
        path.name for path in distribution("penstock").files or () if "licenses" in str(path)
    }
    assert licences >= {"LICENSE", "THIRD_PARTY_LICENSES.md"}, licences
    return f"{penstock.__version__} on CPython {platform.python_version()}, {platform.machine()}"


def check_loop() -> str:
    """An echo over TCP on Penstock's loop."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def main() -> bytes:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            line = await reader.readline()
            writer.close()
            return line

    assert penstock.run(main()) == b"hello\n"
    return "echo"


def check_files() -> str:
    """A file is written and read."""

    async def main() -> bytes:
        await files.write_file("values", b"1 2 3", atomic=True)
        async with files.open("values", "rb") as file:
            return await file.read()

    assert penstock.run(main()) == b"1 2 3"
    return "read what was written"


def check_uring() -> str:
    """io_uring without a loop reads a file."""
    found = probe()
    assert found.available, found.reason
    Path("ring").write_bytes(b"from the ring")
    descriptor = os.open("ring", os.O_RDONLY)
    try:
        with UringCtx(entries=8) as ring:
            ring.prep_read(descriptor, 13, 0)
            assert [data for _, data, _ in ring.wait_completions()] == [b"from the ring"]
    finally:
        os.close(descriptor)
    return found.reason


def check_serial() -> str:
    """An exchange through a serial port, whose other end is a pseudo-terminal."""

    async def main() -> bytes:
        instrument, slave = os.openpty()
        config = SerialConfig(baudrate=19_200, exclusive=True)
        async with await open_serial_port(os.ttyname(slave), config) as port:
            await port.send(b"A\r")
            assert os.read(instrument, 16) == b"A\r"
            os.write(instrument, b"A +014.70\r")
            received = await port.receive(64)
        os.close(instrument)
        os.close(slave)
        return received

    assert penstock.run(main()) == b"A +014.70\r"
    return "exchange"


def check_recording() -> str:
    """Two simulated instruments are recorded to CSV."""

    async def main() -> int:
        bus = Bus([MassFlowController(unit_id="A"), MassFlowController(unit_id="B")])
        async with open_pty(bus) as path, AlicatManager() as manager:
            await manager.add("argon", path, unit_id="A")
            await manager.add("oxygen", path, unit_id="B")
            async with record(manager, rate_hz=10, duration=1) as recording:
                return (await pipe(recording, CsvSink("run.csv"))).samples_emitted

    samples = penstock.run(main())
    rows = Path("run.csv").read_text().splitlines()
    assert samples == 20, samples
    assert sum("argon" in row for row in rows) == 10, rows
    return f"{samples} samples in CSV"


def check_command() -> str:
    """``penstock doctor`` finds every part."""
    command = Path(sys.executable).with_name("penstock")
    done = subprocess.run([command, "doctor"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return f"penstock doctor: {len(done.stdout.splitlines())} lines"


CHECKS: dict[str, Callable[[], str]] = {
    "origin": check_origin,
    "loop": check_loop,
    "files": check_files,
    "uring": check_uring,
    "serial": check_serial,
    "recording": check_recording,
    "command": check_command,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--without", action="append", default=[], choices=CHECKS, help="leave this part out"
    )
    left_out = parser.parse_args().without
    for name, check in CHECKS.items():
        print(f"{name:10}", "left out" if name in left_out else check(), flush=True)


if __name__ == "__main__":
    main()
