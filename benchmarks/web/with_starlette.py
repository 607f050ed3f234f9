"""Starlette: a short answer of JSON."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def hello(request: Request) -> JSONResponse:
    """The text of the others, as JSON."""
    return JSONResponse({"text": "Hello, world!"})


app = Starlette(routes=[Route("/", hello)])
