"""Stream connections over Unix sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from .conftest import Run
from .peers import Recorder


@pytest.fixture
def path() -> Iterator[Path]:
    # The paths of pytest's own temporary folders exceed a socket's 108 characters.
    with TemporaryDirectory() as folder:
        yield Path(folder) / "socket"


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def exchange(path: Any, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize("convert", [str, Path, os.fsencode], ids=["str", "Path", "bytes"])
def test_a_path_is_served(run: Run, path: Path, convert: Any) -> None:
    async def main() -> None:
        async with await asyncio.start_unix_server(echo, convert(path)):
            assert await exchange(convert(path), b"x" * 1_000_000) == b"x" * 1_000_000

    run(main())


def test_an_abstract_name_is_served(run: Run) -> None:
    name = f"\0penstock-test-{os.getpid()}"

    async def main() -> None:
        async with await asyncio.start_unix_server(echo, name):
            assert await exchange(name, b"abstract") == b"abstract"

    run(main())


def test_a_stale_socket_is_replaced(run: Run, path: Path) -> None:
    async def main() -> None:
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
        async with await asyncio.start_unix_server(echo, path):
            assert await exchange(path, b"fresh") == b"fresh"

    run(main())


def test_an_existing_file_is_kept_and_named_in_the_error(run: Run, path: Path) -> None:
    path.write_text("precious", encoding="ascii")

    async def main() -> None:
        with pytest.raises(OSError, match="is already in use"):
            await asyncio.start_unix_server(echo, path)

    run(main())
    assert path.read_text(encoding="ascii") == "precious"


@pytest.mark.skipif(sys.version_info < (3, 13), reason="cleanup_socket came with Python 3.13")
@pytest.mark.parametrize("keep", [False, True])
def test_the_file_is_removed_when_the_server_closes(
    loop: asyncio.AbstractEventLoop, run: Run, path: Path, keep: bool
) -> None:
    async def main() -> None:
        arguments: dict[str, Any] = {"cleanup_socket": False} if keep else {}
        server = await loop.create_unix_server(Recorder, str(path), **arguments)
        server.close()
        await server.wait_closed()
        assert path.exists() is keep

    run(main())


def test_addresses_are_paths(loop: asyncio.AbstractEventLoop, run: Run, path: Path) -> None:
    async def main() -> None:
        async with await loop.create_unix_server(Recorder, str(path)) as server:
            assert server.sockets[0].family == socket.AF_UNIX
            transport, protocol = await loop.create_unix_connection(Recorder, str(path))
            assert transport.get_extra_info("peername") == str(path)
            assert transport.get_extra_info("sockname") == ""
            assert transport.get_extra_info("socket").family == socket.AF_UNIX
            assert isinstance(transport, asyncio.Transport)
            transport.close()
            await protocol.closed.wait()

    run(main())


def test_sockets_are_taken_over(loop: asyncio.AbstractEventLoop, run: Run, path: Path) -> None:
    async def main() -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        async with await asyncio.start_unix_server(echo, sock=listener):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
            client.setblocking(False)
            transport, protocol = await loop.create_unix_connection(Recorder, sock=client)
            transport.write(b"taken")
            assert await protocol.received(5) == b"taken"
            transport.close()
            await protocol.closed.wait()

    run(main())


def test_connecting_to_a_missing_or_refusing_path_raises(
    loop: asyncio.AbstractEventLoop, run: Run, path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        run(loop.create_unix_connection(Recorder, str(path)))
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(ConnectionRefusedError):
        run(loop.create_unix_connection(Recorder, str(path)))


def test_a_server_in_a_missing_folder_raises(
    loop: asyncio.AbstractEventLoop, run: Run, path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        run(loop.create_unix_server(Recorder, str(path / "deeper")))


def test_wrong_arguments_are_refused(loop: asyncio.AbstractEventLoop, run: Run, path: Path) -> None:
    with socket.socket() as tcp:
        with pytest.raises(ValueError, match="path and sock can not be specified"):
            run(loop.create_unix_connection(Recorder, str(path), sock=tcp))  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="A UNIX Domain Stream Socket was expected"):
            run(loop.create_unix_connection(Recorder, sock=tcp))
        with pytest.raises(ValueError, match="A UNIX Domain Stream Socket was expected"):
            run(loop.create_unix_server(Recorder, sock=tcp))
    with pytest.raises(ValueError, match=r"no path and sock were specified"):
        run(loop.create_unix_connection(Recorder))
    with pytest.raises(ValueError, match=r"path was not specified, and no sock specified"):
        run(loop.create_unix_server(Recorder))
