"""Who the client is behind a proxy: X-Forwarded-For and X-Forwarded-Proto."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable
from typing import Any

from penstock.asgi._types import Application, Scope

__all__ = ["ProxyHeaders", "TrustedHosts"]


class TrustedHosts:
    """The proxies whose fields are believed.

    Args:
        text: Addresses, networks and other names, separated by commas; "*" trusts every one. A
            client of a Unix socket has no address; the word "unix" trusts those.
    """

    def __init__(self, text: str) -> None:
        self.all: bool = False
        self._names: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in (part.strip() for part in text.split(",")):
            if entry == "*":
                self.all = True
            elif "/" in entry:
                try:
                    self._networks.append(ipaddress.ip_network(entry))
                except ValueError as error:
                    raise ValueError(f"{entry!r} is not a network: {error}") from error
            elif entry:
                self._names.add(entry)

    def __contains__(self, host: str) -> bool:
        if self.all or host in self._names:
            return True
        if not self._networks:
            return False
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    def client_of(self, forwarded: str) -> str:
        """Return the nearest host that is not trusted, or the farthest one."""
        hosts = [host.strip() for host in forwarded.split(",")]
        if not self.all:
            for entry in reversed(hosts):
                if host_and_port(entry)[0] not in self:
                    return entry
        return hosts[0]


def host_and_port(entry: str) -> tuple[str, int]:
    """Split an entry of X-Forwarded-For; the port is 0 if there is none."""
    if entry.startswith("["):
        host, _, port = entry[1:].partition("]")
        port = port.removeprefix(":")
    elif entry.count(":") == 1:
        host, _, port = entry.partition(":")
    else:
        host, port = entry, ""
    return host, int(port) if port.isascii() and port.isdigit() and int(port) < 65536 else 0


class ProxyHeaders:
    """An application around another one, whose scopes tell of the client behind the proxy."""

    def __init__(self, app: Application, trusted: TrustedHosts) -> None:
        self._app = app
        self._trusted = trusted

    def __call__(self, scope: Scope, receive: Any, send: Any) -> Awaitable[Any]:
        """Call the application with a scope that is corrected in place."""
        if scope["type"] != "lifespan":
            client = scope["client"]
            if (client[0] if client else "unix") in self._trusted:
                self._correct(scope)
        return self._app(scope, receive, send)

    def _correct(self, scope: Scope) -> None:
        forwarded = []
        scheme = b""
        for name, value in scope["headers"]:
            if name == b"x-forwarded-for":
                forwarded.append(value.decode("latin-1"))
            elif name == b"x-forwarded-proto":
                scheme = value  # the last one, which the nearest proxy has added
        if scheme:
            text = scheme.decode("latin-1").strip()
            if text in ("http", "https", "ws", "wss"):
                if scope["type"] == "websocket":
                    text = text.replace("http", "ws")
                scope["scheme"] = text
        if forwarded:
            host, port = host_and_port(self._trusted.client_of(",".join(forwarded)))
            if host:
                scope["client"] = (host, port)
