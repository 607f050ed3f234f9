"""The measured serial libraries, the event loops that each runs on, and how each opens a port."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.measured_program import Unavailable

BAUDRATE = 115_200

# Library -> the loops it runs on. "penstock" is both a library and a loop.
LOOPS_OF = {
    "penstock": ["penstock", "asyncio", "uvloop", "trio"],
    "anyserial": ["asyncio", "uvloop", "trio"],
    "pyserial-asyncio": ["asyncio", "uvloop"],
    "pyserial-asyncio-fast": ["asyncio", "uvloop"],
    "serialx": ["asyncio", "uvloop"],
    "aioserial": ["asyncio"],
}
ASYNC_CONTENDERS = [f"{library}@{loop}" for library, loops in LOOPS_OF.items() for loop in loops]


@dataclass
class Port:
    """An open port of any library. The calls are the library's own, without a wrapper."""

    receive: Callable[[int], Awaitable[bytes]]
    send: Callable[[bytes], Awaitable[object]]
    close: Callable[[], Awaitable[object]]
    native: Any


def split(contender: str) -> tuple[str, str]:
    """Library and loop of a name such as ``anyserial@trio``."""
    library, _, loop = contender.partition("@")
    return library, loop


def imported(module: str) -> Any:
    """Import *module*; raises Unavailable if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unavailable(f"{module} is not installed here: {error}") from error


async def open_port(library: str, path: str, baudrate: int = BAUDRATE) -> Port:
    """Open *path* with *library*."""
    if library in ("penstock", "anyserial"):
        module = imported("penstock.serial" if library == "penstock" else "anyserial")
        port = await module.open_serial_port(path, module.SerialConfig(baudrate=baudrate))
        return Port(port.receive, port.send, port.aclose, port)
    if library in ("pyserial-asyncio", "pyserial-asyncio-fast"):
        return await _open_streams(
            imported(library.replace("pyserial", "serial").replace("-", "_")), path, baudrate
        )
    if library == "serialx":
        port = imported("serialx").async_serial_for_url(path, baudrate=baudrate)
        await port.open()
        return Port(port.read, port.write, port.close, port)
    if library == "aioserial":
        port = imported("aioserial").AioSerial(path, baudrate=baudrate)

        async def close() -> None:
            port.close()

        return Port(port.read_async, port.write_async, close, port)
    raise Unavailable(f"unknown library '{library}'")


async def _open_streams(module: Any, path: str, baudrate: int) -> Port:
    reader, writer = await module.open_serial_connection(url=path, baudrate=baudrate)

    async def send(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    async def close() -> None:
        writer.close()

    return Port(reader.read, send, close, (reader, writer))


def run(loop: str, main: Callable[[], Awaitable[Any]]) -> Any:
    """Run *main* through AnyIO on the event loop of that name."""
    anyio = imported("anyio")
    backend, options = backend_of(loop)
    return anyio.run(main, backend=backend, backend_options=options)


def backend_of(loop: str) -> tuple[str, dict[str, Any]]:
    """AnyIO's backend and its options for a loop; raises Unavailable if it is missing."""
    if loop == "trio":
        imported("trio")
        return "trio", {}
    if loop == "uvloop":
        imported("uvloop")
        return "asyncio", {"use_uvloop": True}
    if loop == "penstock":
        return "asyncio", {"loop_factory": imported("penstock").new_event_loop}
    return "asyncio", {"use_uvloop": False}
