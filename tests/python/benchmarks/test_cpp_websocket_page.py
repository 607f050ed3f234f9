"""The pages of the C++ WebSocket servers: their commands, and the load with compressed replies."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import LATENCIES
from benchmarks.measure.library_stand import uwebsockets_version
from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.processes import Unavailable, run
from benchmarks.pages import cpp_websocket_sequential
from benchmarks.pages.cpp_websocket import DEFLATE, LIBRARIES, Stand

STAND = Stand("/programs", Cores(server=0, client=1))
COMPRESSED_TEXT = 0xC1
ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover;"
    b" client_no_context_takeover\r\n"
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
)


def compressor() -> zlib._Compress:
    return zlib.compressobj(6, zlib.DEFLATED, -15)


def final_block(text: bytes) -> bytes:
    """The last block of a stream and an empty octet, as uWebSockets with libdeflate sends it."""
    made = compressor()
    return made.compress(text) + made.flush(zlib.Z_FINISH) + b"\0"


def flushed_block(text: bytes) -> bytes:
    made = compressor()
    return (made.compress(text) + made.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\0\0\xff\xff")


def frame(payload: bytes) -> bytes:
    size = len(payload)
    assert size < 65536
    length = bytes([size]) if size < 126 else bytes([126]) + size.to_bytes(2, "big")
    return bytes([COMPRESSED_TEXT]) + length + payload


def echo(connection: socket.socket, compress: Callable[[bytes], bytes]) -> None:
    with connection, connection.makefile("rb") as received:
        while received.readline() != b"\r\n":
            pass
        connection.sendall(ACCEPTED)
        while head := received.read(2):
            assert head[0] == COMPRESSED_TEXT
            size = head[1] & 0x7F
            assert size <= 126
            if size == 126:
                size = int.from_bytes(received.read(2), "big")
            key = received.read(4)
            masked = received.read(size)
            payload = bytes(byte ^ key[i % 4] for i, byte in enumerate(masked))
            text = zlib.decompressobj(-15).decompress(payload + b"\0\0\xff\xff")
            connection.sendall(frame(compress(text)))


@contextmanager
def serving(compress: Callable[[bytes], bytes]) -> Iterator[int]:
    """A server of one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            echo(listener.accept()[0], compress)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.parametrize("compress", [final_block, flushed_block])
def test_the_load_takes_each_compressed_reply(compress: Callable[[bytes], bytes]) -> None:
    load = build_native() / "websocket_client"
    if not load.exists():
        pytest.skip("the load is not built: zlib's headers are missing")
    with serving(compress) as port:
        command = [str(load), "--port", str(port), "--size", "1024", "--connections", "1"]
        command += ["--deflate", "1", "--requests", "20", "--warmup", "0"]
        figures = json.loads(run([*command, "--server-pid", str(os.getpid())], None, timeout=60))
    assert figures["requests"] == 20


def test_each_library_has_a_server() -> None:
    for name in [each for each in LIBRARIES if each != "bun"]:
        assert STAND.command(name) == [f"/programs/websocket_{name}"]
        assert (BENCHMARKS / "cpp" / "libraries" / f"websocket_{name}.cpp").exists()


def test_uwebsockets_compresses_and_drogon_does_not() -> None:
    command = STAND.command("uwebsockets", DEFLATE)
    assert command == ["/programs/websocket_uwebsockets", DEFLATE]
    with pytest.raises(Unavailable, match="no permessage-deflate"):
        STAND.command("drogon", DEFLATE)


def test_a_server_that_was_not_built_is_named(tmp_path: Path) -> None:
    stand = Stand(str(tmp_path), Cores(server=0, client=0))
    with (
        pytest.raises(Unavailable, match="not built: websocket_uwebsockets"),
        stand.serving("uwebsockets", 64, 1),
    ):
        pass


def test_the_version_of_uwebsockets_is_that_of_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.measure.library_stand.NEWEST", tmp_path)
    assert uwebsockets_version() is None
    header = tmp_path / "uwebsockets/uWebSockets/src/HttpResponse.h"
    header.parent.mkdir(parents=True)
    header.write_text('writeHeader("uWebSockets", "20");\n')
    (tmp_path / "uwebsockets/Cargo.toml").write_text('[package]\nversion = "0.0.10"\n')
    assert uwebsockets_version() == "20 (libuwebsockets-sys 0.0.10)"


def test_sequential_messages_have_the_distribution_of_their_round_trips() -> None:
    keys = [metric.key for metric in cpp_websocket_sequential.PAGE.metrics]
    assert keys[-3:] == [metric.key for metric in LATENCIES]
