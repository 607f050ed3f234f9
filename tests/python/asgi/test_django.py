"""Django on the server, by ASGI and by WSGI."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import httpx
import pytest

import penstock

from .support import CLOSE, connected, serving

pytest.importorskip("django")


@pytest.fixture(scope="module")
def site() -> Any:
    return importlib.import_module("tests.python.asgi.django_site")


def application(interface: str) -> Any:
    module = importlib.import_module(f"django.core.{interface}")
    return getattr(module, f"get_{interface}_application")()


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
# Django buffers a stream that is not asynchronous, and says so.
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume synchronous iterators")
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators")
def test_views(site: Any, interface: str) -> None:
    async def main() -> None:
        async with (
            serving(application(interface), lifespan="auto") as server,
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{server.port}", trust_env=False
            ) as client,
        ):
            answers = await asyncio.gather(*[client.get(f"/plain/{n}%C3%A9") for n in range(20)])
            host = f"127.0.0.1:{server.port}"
            assert [each.text for each in answers] == [f"GET {n}é {host}" for n in range(20)]
            found = await client.get("/asynchronous", params={"q": "ü"})
            assert found.json() == {"query": "ü", "secure": False}
            sent = await client.post(
                "/upload", data={"field": "a"}, files={"one": bytes(3_000_000), "two": b"12"}
            )
            assert sent.json() == {"field": "a", "files": {"one": 3_000_000, "two": 2}}
            streamed = await client.get("/stream")
            assert streamed.text == "".join(f"{number}\n" for number in range(50))
            whole = await client.get("/file")
            assert whole.content == site.FILE.read_bytes()
            assert whole.headers["content-length"] == str(len(whole.content))
            assert (await client.get("/missing")).status_code == 404
            head = await client.head("/plain/x")
            assert head.headers["content-length"] == str(len(f"HEAD x {host}"))

    penstock.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
def test_a_view_that_fails(site: Any, interface: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            serving(application(interface), lifespan="auto") as server,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            answer = await client.get(f"http://127.0.0.1:{server.port}/fails")
            assert answer.status_code == 500

    penstock.run(asyncio.wait_for(main(), 60))
    assert not [r for r in caplog.records if (r.name, r.levelname) == ("penstock.asgi", "ERROR")]


def test_a_client_that_goes_ends_an_endless_view(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        site.cancelled = asyncio.Event()
        async with serving(application("asgi"), lifespan="auto") as server:
            async with connected(server) as client:
                client.writer.write(b"GET /endless HTTP/1.1\r\n" + CLOSE)
                await client.head()
                await client.reader.readexactly(6)
            await site.cancelled.wait()

    penstock.run(asyncio.wait_for(main(), 60))
    assert not [r for r in caplog.records if (r.name, r.levelname) == ("penstock.asgi", "ERROR")]
