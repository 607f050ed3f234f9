"""A site of Django, for test_django.py."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import (
    FileResponse,
    HttpResponse,
    JsonResponse,
    StreamingHttpResponse,
)
from django.urls import path

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        CHANNEL_LAYERS={"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}},
        DATABASES={},
        ROOT_URLCONF=__name__,
        SECRET_KEY="x",
        LOGGING_CONFIG=None,
        MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
        USE_TZ=True,
    )

FILE = Path(__file__)
cancelled = asyncio.Event()
_local = threading.local()


def plain(request: Any, name: str) -> HttpResponse:
    # What a thread keeps for itself is that of one request at a time.
    _local.name = name
    return HttpResponse(f"{request.method} {_local.name} {request.get_host()}")


async def asynchronous(request: Any) -> JsonResponse:
    await asyncio.sleep(0)
    return JsonResponse({"query": request.GET["q"], "secure": request.is_secure()})


def upload(request: Any) -> JsonResponse:
    sizes = {name: file.size for name, file in request.FILES.items()}
    return JsonResponse({"field": request.POST["field"], "files": sizes})


def stream(request: Any) -> StreamingHttpResponse:
    def parts() -> Iterator[str]:
        for number in range(50):
            yield f"{number}\n"

    return StreamingHttpResponse(parts())


async def endless(request: Any) -> StreamingHttpResponse:
    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0.001)
        finally:
            cancelled.set()

    return StreamingHttpResponse(parts())


def file(request: Any) -> FileResponse:
    return FileResponse(FILE.open("rb"))


def fails(request: Any) -> HttpResponse:
    raise KeyError("meant")


urlpatterns = [
    path("plain/<str:name>", plain),
    path("asynchronous", asynchronous),
    path("upload", upload),
    path("stream", stream),
    path("endless", endless),
    path("file", file),
    path("fails", fails),
]
