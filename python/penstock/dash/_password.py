"""A password for viewing the page. It allows no changes: they need the token.

A browser gets a form, and after the right password a cookie that is valid until the server ends. A
program sends the password with each request, by HTTP's Basic scheme (RFC 7617) with any user name.
Rejected: the Basic scheme for browsers, because not all of them send it with a WebSocket.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterable
from html import escape
from urllib.parse import parse_qs

import anyio
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OPEN = frozenset({"/dash.css", "/icon.svg"})
_LOGIN = "/login"
_LONGEST_FORM = 4096
_WRONG_S = 1.0
"""Seconds until a wrong password is answered. Answers are serialised, so guessing is slow."""
_FORM = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Penstock</title>
<link rel="icon" href="icon.svg">
<link rel="stylesheet" href="dash.css">
</head>
<body class="login">
<form method="post" action="login" class="card">
<h1>Penstock</h1>
<label>Password <input name="password" type="password" autocomplete="current-password" autofocus
 required></label>
<p class="refusal" role="alert">{refusal}</p>
<button class="primary">Log in</button>
</form>
</body>
</html>
"""


class PasswordGate:
    """ASGI middleware that passes on only requests with the password or the cookie.

    Args:
        app: the application that gets these requests.
        password: the password; None passes on every request.
    """

    def __init__(self, app: ASGIApp, password: str | None = None) -> None:
        self._app = app
        self._password = password
        # Cookies are shared by all ports of a host: two dashboards need different names.
        self._cookie = f"penstock-{secrets.token_hex(4)}"
        self._pass = secrets.token_urlsafe(32)
        self._one_at_a_time: anyio.Lock | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            self._password is None
            or scope["type"] not in ("http", "websocket")
            or scope["path"] in _OPEN
            or self._is_let_in(scope["headers"])
        ):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        response: Response
        if scope["path"] == _LOGIN and scope["method"] == "POST":
            response = await self._answer(receive)
        elif scope["path"] in ("/", _LOGIN):
            response = _form("")
        else:
            response = PlainTextResponse("the password of this page is needed", status_code=401)
        await response(scope, receive, send)

    async def _answer(self, receive: Receive) -> Response:
        offered = parse_qs((await _body(receive)).decode("utf-8", "replace")).get("password", [""])
        if self._one_at_a_time is None:
            self._one_at_a_time = anyio.Lock()
        async with self._one_at_a_time:
            if not self._is_password(offered[0]):
                await anyio.sleep(_WRONG_S)
                return _form("this is not the password")
        response = RedirectResponse("./", status_code=303)
        response.set_cookie(self._cookie, self._pass, httponly=True, samesite="strict")
        return response

    def _is_let_in(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        for name, value in headers:
            text = value.decode("latin-1")
            if name == b"cookie":
                pairs = (part.strip().partition("=") for part in text.split(";"))
                if any(
                    key == self._cookie and hmac.compare_digest(given.encode(), self._pass.encode())
                    for key, _, given in pairs
                ):
                    return True
            elif name == b"authorization" and text[:6].lower() == "basic ":
                try:
                    pair = base64.b64decode(text[6:], validate=True).decode()
                except (binascii.Error, UnicodeDecodeError):
                    continue
                if self._is_password(pair.partition(":")[2]):
                    return True
        return False

    def _is_password(self, offered: str) -> bool:
        assert self._password is not None
        return hmac.compare_digest(
            offered.encode("utf-8", "replace"), self._password.encode("utf-8", "replace")
        )


def _form(refusal: str) -> Response:
    return HTMLResponse(
        _FORM.format(refusal=escape(refusal)),
        status_code=401,
        headers={"cache-control": "no-store"},
    )


async def _body(receive: Receive) -> bytes:
    found = bytearray()
    while True:
        message: Message = await receive()
        if message["type"] != "http.request":
            return b""
        found += message.get("body", b"")
        if len(found) > _LONGEST_FORM:
            return b""
        if not message.get("more_body", False):
            return bytes(found)
