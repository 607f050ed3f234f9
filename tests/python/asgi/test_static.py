"""Files of a folder: what is answered, and what is never found."""

from __future__ import annotations

import gzip
import os
import resource
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from penstock.asgi._compression import Compressed
from penstock.asgi._static import StaticFiles
from tests.python.loop.certificates import client_context, server_context

from .support import CLOSE, HOST, Client, ask, connected, hello, serving

Run = Callable[..., Any]
Answer = tuple[int, dict[str, str], bytes]
LONG = bytes(range(256)) * 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "public"
    (folder / "sub").mkdir(parents=True)
    (folder / ".well-known").mkdir()
    (folder / "index.html").write_text("<p>index")
    (folder / "sub/index.html").write_text("<p>sub")
    (folder / "text.txt").write_text("0123456789")
    (folder / "long.bin").write_bytes(LONG)
    (folder / ".secret").write_text("secret")
    (folder / ".well-known/a").write_text("known")
    (folder / "é b.txt").write_text("name")
    (tmp_path / "outside.txt").write_text("outside")
    (folder / "link-out").symlink_to("../outside.txt")
    (folder / "link-in").symlink_to("text.txt")
    os.mkfifo(folder / "fifo")
    return folder


def get(
    run: Run, folder: Path, target: str, fields: str = "", prefix: str = "/s", method: str = "GET"
) -> Answer:
    request = f"{method} {target} HTTP/1.1\r\n{fields}".encode() + CLOSE
    return run(ask(StaticFiles(hello, prefix, os.fspath(folder)), request))  # type: ignore[no-any-return]


def test_files_and_indexes(run: Run, folder: Path) -> None:
    status, fields, body = get(run, folder, "/s/text.txt?x")
    assert (status, body) == (200, b"0123456789")
    assert fields["content-type"] == "text/plain; charset=utf-8"
    assert get(run, folder, "/s/")[2] == b"<p>index"
    assert get(run, folder, "/s/sub/")[1]["content-type"] == "text/html; charset=utf-8"
    moved = get(run, folder, "/s/sub?a=b")
    assert (moved[0], moved[1]["location"]) == (308, "/s/sub/?a=b")
    assert get(run, folder, "/s/%C3%A9%20b.txt")[2] == b"name"
    assert get(run, folder, "/s/link-in")[2] == b"0123456789"
    assert get(run, folder, "/s/.well-known/a")[2] == b"known"
    assert get(run, folder, "/s/long.bin")[2] == LONG
    assert get(run, folder, "/elsewhere")[2] == b"hello"


@pytest.mark.parametrize(
    "name",
    [
        "../outside.txt",
        "%2e%2e/outside.txt",
        "sub/..%2f..%2foutside.txt",
        "..%5coutside.txt",
        "/etc/passwd",
        "//etc/passwd",
        "%2fetc/passwd",
        "link-out",
        ".secret",
        ".well-known/../.secret",
        "text.txt/",
        "text.txt/x",
        "text.txt%00",
        "%ff",
        "fifo",
        "a" * 300,
        "missing",
    ],
)
def test_what_is_never_found(run: Run, folder: Path, name: str) -> None:
    assert get(run, folder, f"/s/{name}")[::2] == (404, b"Not Found")


def test_a_sibling_folder_with_the_same_beginning(run: Run, folder: Path) -> None:
    (folder.parent / "public-too").mkdir()
    (folder.parent / "public-too/file").write_text("x")
    (folder / "near").symlink_to("../public-too/file")
    assert get(run, folder, "/s/near")[0] == 404
    assert get(run, folder, "/stext.txt")[2] == b"hello"


def test_the_root_passes_on_what_is_no_file(run: Run, folder: Path) -> None:
    assert get(run, folder, "/text.txt", prefix="/")[2] == b"0123456789"
    assert get(run, folder, "/missing", prefix="/")[2] == b"hello"
    assert get(run, folder, "/text.txt", prefix="/", method="POST")[2] == b"hello"
    refused = get(run, folder, "/s/text.txt", method="POST")
    assert (refused[0], refused[1]["allow"]) == (405, "GET, HEAD")


def test_conditions(run: Run, folder: Path) -> None:
    fields = get(run, folder, "/s/text.txt")[1]
    etag, modified = fields["etag"], fields["last-modified"]

    def status(*lines: str) -> int:
        return get(run, folder, "/s/text.txt", "".join(f"{line}\r\n" for line in lines))[0]

    later = formatdate((folder / "text.txt").stat().st_mtime + 10, usegmt=True)
    earlier = formatdate((folder / "text.txt").stat().st_mtime - 10, usegmt=True)
    assert status(f"If-None-Match: {etag}") == 304
    assert status(f'If-None-Match: "x", W/{etag}') == 304
    assert status('If-None-Match: "x"', f"If-Modified-Since: {modified}") == 200
    assert status(f"If-Modified-Since: {modified}") == 304
    assert status(f"If-Modified-Since: {later}") == 304
    assert status(f"If-Modified-Since: {earlier}") == 200
    assert status("If-Modified-Since: yesterday") == 200
    assert status("Range: bytes=0-1", f"If-Range: {etag}") == 206
    assert status("Range: bytes=0-1", 'If-Range: "x"') == 200
    assert status("If-None-Match: *") == 304
    assert status(f"If-None-Match: {etag}", 'If-None-Match: "x"') == 304
    assert status(f'If-Match: "x", {etag}') == status("If-Match: *") == 200
    assert status('If-Match: "x"') == status(f"If-Match: W/{etag}") == 412
    assert status(f"If-Unmodified-Since: {earlier}") == 412
    assert status(f"If-Unmodified-Since: {later}") == 200


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        ("bytes=2-4", 206, b"234"),
        ("bytes=8-", 206, b"89"),
        ("bytes=-3", 206, b"789"),
        ("bytes=-30", 206, b"0123456789"),
        ("bytes=5-500", 206, b"56789"),
        ("bytes=10-", 416, b"Range Not Satisfiable"),
        ("bytes=-0", 416, b"Range Not Satisfiable"),
        ("bytes=4-2", 200, b"0123456789"),
        ("bytes=-", 200, b"0123456789"),
        ("bytes=0-1,3-4", 200, b"0123456789"),
        ("lines=0-1", 200, b"0123456789"),
        ("bytes=0-" + "9" * 40, 206, b"0123456789"),
        ("bytes=" + "9" * 40 + "-", 416, b"Range Not Satisfiable"),
        ("bytes=-" + "9" * 5000, 206, b"0123456789"),
        ("Bytes=1-1", 206, b"1"),
    ],
)
def test_ranges(run: Run, folder: Path, asked: str, status: int, part: bytes) -> None:
    answer = get(run, folder, "/s/text.txt", f"Range: {asked}\r\n")
    assert answer[::2] == (status, part)
    if status == 206:
        start = b"0123456789".index(part)
        assert answer[1]["content-range"] == f"bytes {start}-{start + len(part) - 1}/10"
    elif status == 416:
        assert answer[1]["content-range"] == "bytes */10"


def test_a_range_of_a_long_file_and_over_tls(run: Run, folder: Path) -> None:
    assert get(run, folder, "/s/long.bin", "Range: bytes=1000-200999\r\n")[2] == LONG[1000:201000]
    app = StaticFiles(hello, "/", os.fspath(folder))

    async def main() -> None:
        import asyncio

        async with serving(app, ssl=server_context()) as server:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=client_context(), server_hostname="localhost"
            )
            writer.write(b"GET /long.bin HTTP/1.1\r\n" + CLOSE)
            assert (await Client(reader, writer).response())[2] == LONG
            writer.close()

    run(main())


@pytest.mark.parametrize("compressed", [True, False])
def test_head_has_the_fields_of_get(run: Run, folder: Path, compressed: bool) -> None:
    app: Any = StaticFiles(hello, "/s", os.fspath(folder))
    app = Compressed(app) if compressed else app
    (folder / "long.txt").write_bytes(LONG)
    more = b" HTTP/1.1\r\nAccept-Encoding: gzip\r\n" + HOST + b"\r\n"

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for name in (b"text.txt", b"long.bin", b"long.txt"):
                client.writer.write(b"HEAD /s/" + name + more)
                head = await client.head()
                client.writer.write(b"GET /s/" + name + more)
                status, fields, _ = await client.response()
                assert head[0] == status
                assert {**head[1], "date": ""} == {**fields, "date": ""}

    run(main())


def test_a_range_is_one_of_get_alone(run: Run, folder: Path) -> None:
    app = StaticFiles(hello, "/s", os.fspath(folder))

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"HEAD /s/text.txt HTTP/1.1\r\nRange: bytes=0-1\r\n" + CLOSE)
            status, fields = await client.head()
            assert (status, fields["content-length"]) == (200, "10")

    run(main())


def test_types_of_packed_files(run: Run, folder: Path) -> None:
    for name in ("a.tar.gz", "a.html.gz", "a.css.br"):
        (folder / name).write_bytes(b"packed")
    types = [get(run, folder, f"/s/a.{e}")[1]["content-type"] for e in ("tar.gz", "html.gz")]
    assert types == ["application/gzip"] * 2
    assert get(run, folder, "/s/a.css.br")[1]["content-type"] == "application/octet-stream"


def test_a_linked_folder_outside_is_not_told(run: Run, folder: Path) -> None:
    (folder.parent / "other").mkdir()
    (folder.parent / "other/index.html").write_text("x")
    (folder / "linked").symlink_to("../other")
    assert get(run, folder, "/s/linked")[0] == 404


def test_without_descriptors_a_file_is_not_said_to_be_missing(folder: Path) -> None:
    app = StaticFiles(hello, "/s", os.fspath(folder))
    scope = {"type": "http", "method": "GET", "path": "/s/text.txt", "headers": []}
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    coroutine = app(scope, None, None)  # type: ignore[arg-type]
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            coroutine.send(None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_compressed_siblings(run: Run, folder: Path) -> None:
    packed = gzip.compress(b"0123456789")
    (folder / "text.txt.gz").write_bytes(packed)
    (folder / "text.txt.br").write_bytes(b"br")
    (folder / "index.html.br").write_bytes(b"index")

    def answer(accepted: str, target: str = "/s/text.txt", more: str = "") -> tuple[Any, bytes]:
        _, fields, body = get(run, folder, target, f"Accept-Encoding: {accepted}\r\n{more}")
        assert fields["vary"] == "accept-encoding"
        return fields.get("content-encoding"), body

    assert answer("gzip") == ("gzip", packed)
    assert answer("gzip, br") == ("br", b"br")
    assert answer("gzip;q=1, br;q=0.5") == ("gzip", packed)
    assert answer("*, br;q=0") == ("gzip", packed)
    assert answer("zstd, identity") == (None, b"0123456789")
    assert answer("br", "/s/") == ("br", b"index")
    assert answer("gzip", more="Range: bytes=0-1\r\n") == (None, b"01")
    # One that is older than its file is of something else.
    stale = (folder / "text.txt").stat().st_mtime - 10
    os.utime(folder / "text.txt.gz", (stale, stale))
    assert answer("gzip") == (None, b"0123456789")
    tags = {
        get(run, folder, "/s/text.txt", f"Accept-Encoding: {coding}\r\n")[1]["etag"]
        for coding in ("br", "identity")
    }
    assert len(tags) == 2


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StaticFiles(hello, "/s", os.fspath(tmp_path / "none"))
    with pytest.raises(ValueError, match="must begin with '/'"):
        StaticFiles(hello, "s", os.fspath(tmp_path))
