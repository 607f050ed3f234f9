"""Who may use the page: the Host and Origin of each request, and the token for control.

A browser sends requests to a loopback address on behalf of any web page. Two headers show which
page sent a request (RFC 6454, section 7; RFC 9110, section 7.2): a page of another site has its own
Origin, and a page whose name an attacker resolves to this machine (DNS rebinding) has its own name
as Host.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOCAL_NAMES = ("localhost",)
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class ControlToken:
    """The secret that allows changes at instruments; 128 random bits, new for each run.

    Attributes:
        text: the token, as a person enters it on the page.
    """

    def __init__(self) -> None:
        self.text: str = secrets.token_urlsafe(16)

    def matches(self, offered: object) -> bool:
        """Whether ``offered`` is the token; the comparison takes constant time."""
        return isinstance(offered, str) and hmac.compare_digest(
            offered.encode("utf-8", "replace"), self.text.encode()
        )


class AccessGate:
    """ASGI middleware that refuses requests for another host and from another site's page.

    A Host that is an IP address is accepted, because DNS rebinding needs a name. Other names than
    ``localhost`` are accepted if ``names`` has them. A request without Origin does not come from
    another site's page, and is accepted.
    """

    def __init__(self, app: ASGIApp, names: Collection[str] = ()) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in (*_LOCAL_NAMES, *names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self.refusal(_headers_of(scope))
        if refusal is not None:
            if scope["type"] == "websocket":
                # Before the accept, this sends the status 403. A response with a body would also be
                # logged to the terminal, which an attacker could then flood.
                await send({"type": "websocket.close"})
            else:
                await PlainTextResponse(refusal, status_code=403)(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def refusal(self, headers: Mapping[str, list[str]]) -> str | None:
        """Why a request with these headers is refused; None if it is not."""
        hosts = headers.get("host", [])
        host = _host_name(hosts[0]) if len(hosts) == 1 else None
        if host is None or not (host in self._names or _is_address(host)):
            return (
                f"the host {hosts[0] if hosts else ''!r} is not served here; "
                "add it by --allow-host if it names this machine"
            )
        origins = headers.get("origin", [])
        if origins and (len(origins) > 1 or not _is_own_origin(origins[0], hosts[0])):
            return "this page belongs to another site; open the dashboard's own address"
        return None


def _headers_of(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        if name in (b"host", b"origin"):
            found.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return found


def _host_name(host: str) -> str | None:
    """The name in a Host header, without port and brackets; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for what is not a port
    except ValueError:
        return None
    if parts.netloc != host or parts.username is not None or parts.path or parts.query:
        return None
    name = (parts.hostname or "").removesuffix(".")
    return name or None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_own_origin(origin: str, host: str) -> bool:
    """Whether an origin is a page of this host, at the same port."""
    return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())
