"""Django over ASGI: a plain view without middleware."""

from __future__ import annotations

import sys

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path


async def hello(request: HttpRequest) -> HttpResponse:
    """The text of the others."""
    # Without middleware Django leaves the length out, and some servers then send chunks.
    fields = {"Content-Type": "text/plain", "Content-Length": "13"}
    return HttpResponse("Hello, world!", headers=fields)


urlpatterns = [path("", hello)]

if not settings.configured:
    settings.configure(ROOT_URLCONF=sys.modules[__name__], ALLOWED_HOSTS=["*"], MIDDLEWARE=[])
django = get_asgi_application()


async def app(scope: dict[str, object], receive: object, send: object) -> None:
    """Django's application, with a lifespan, which it lacks and some servers want."""
    if scope["type"] == "lifespan":
        from benchmarks.web.applications import lifespan

        await lifespan(receive, send)  # type: ignore[arg-type]
        return
    await django(scope, receive, send)
