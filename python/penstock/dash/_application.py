"""The ASGI application: the page, its WebSocket, and CSV."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Collection, Sequence
from importlib.resources import files

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from penstock.dash._access import AccessGate, ControlToken
from penstock.dash._board import Board
from penstock.dash._connection import Connection
from penstock.dash._controls import Controls
from penstock.dash._csv_export import csv_rows
from penstock.dash._password import PasswordGate
from penstock.dash._wire import BadMessageError, number_in

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_LATEST_S = 9e9


class Dashboard:
    """The page of one board, as an ASGI application: ``dashboard.app``.

    Args:
        board: the board whose devices the page shows.
        controls: the changes that the page may make with the token; None for a page that makes no
            changes.
        names: host names of this machine that are accepted besides ``localhost`` and IP addresses.
        password: the password for viewing the page; None needs none. It allows no changes: they
            need the token in any case.
    """

    def __init__(
        self,
        board: Board,
        controls: Controls | None = None,
        names: Collection[str] = (),
        *,
        password: str | None = None,
    ) -> None:
        self.board = board
        self.controls = controls
        self.token: ControlToken | None = ControlToken() if controls is not None else None
        self._connections: set[Connection] = set()
        self.app: Starlette = Starlette(
            routes=[
                *(_file_route(name, content) for name, content in _page_files().items()),
                Route("/csv", self._csv),
                WebSocketRoute("/live", self._live),
            ],
            middleware=[
                Middleware(AccessGate, names=names),
                Middleware(PasswordGate, password=password),
            ],
        )

    async def _live(self, socket: WebSocket) -> None:
        kind, _, offered = socket.headers.get("authorization", "").partition(" ")
        granted = (
            self.token is not None and kind.lower() == "bearer" and self.token.matches(offered)
        )
        await socket.accept()
        connection = Connection(
            socket, self.board, controls=self.controls, token=self.token, granted=granted
        )
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.remove(connection)

    async def farewell(self) -> None:
        """Send the last state to each browser, and nothing after it.

        Call it before the server ends: a browser then shows why its connection closes. The call
        returns when all states are sent; a browser that does not read delays it without limit.
        """
        async with anyio.create_task_group() as tasks:
            for connection in self._connections:
                tasks.start_soon(connection.farewell)

    async def _csv(self, request: Request) -> Response:
        query = request.query_params
        try:
            edges = {key: float(query[key]) for key in ("from", "to")}
            begin = round(number_in(edges, "from", 0.0, _LATEST_S) * 1e9)
            end = round(number_in(edges, "to", 0.0, _LATEST_S) * 1e9)
        except (KeyError, ValueError, BadMessageError):
            return PlainTextResponse(
                "write /csv?from=T&to=T with times in seconds since 1970", status_code=400
            )
        devices, keys = query.getlist("device"), query.getlist("quantity")
        if keys and len(keys) != len(devices):
            return PlainTextResponse(
                "write a quantity behind each device: device=argon&quantity=Mass_Flow [SCCM]",
                status_code=400,
            )
        curves = list(zip(devices, keys, strict=True)) if keys else self._shown_curves(devices)
        return StreamingResponse(
            csv_rows(self.board, curves, begin, end),
            media_type="text/csv; charset=utf-8",
            headers={
                "content-disposition": 'attachment; filename="penstock.csv"',
                "cache-control": "no-store",
            },
        )

    def _shown_curves(self, devices: Sequence[str]) -> list[tuple[str, str]]:
        """The default quantity and setpoint of each of these devices, or of all devices."""
        found = []
        for device in self.board.devices.values():
            if devices and device.name not in devices:
                continue
            for quantity in (device.quantities.shown, device.quantities.setpoint):
                if quantity is not None:
                    found.append((device.name, quantity.key))
        return found


def _page_files() -> dict[str, bytes]:
    """The files of the page by their paths."""
    page = files("penstock.dash") / "page"
    found = {}
    for folder, prefix in ((page, ""), (page / "vendor", "vendor/")):
        for file in folder.iterdir():
            if any(file.name.endswith(suffix) for suffix in _KINDS):
                found[prefix + file.name] = file.read_bytes()
    return found


def _file_route(name: str, content: bytes) -> Route:
    kind = next(kind for suffix, kind in _KINDS.items() if name.endswith(suffix))
    packed = gzip.compress(content, 9, mtime=0)
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    async def answer(request: Request) -> Response:
        # Browsers revalidate at each load, so the page has the same version as the server.
        headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                packed, headers={**headers, "content-encoding": "gzip"}, media_type=kind
            )
        return Response(content, headers=headers, media_type=kind)

    return Route("/" if name == "index.html" else f"/{name}", answer)
