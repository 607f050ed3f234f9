"""Who the client is behind a proxy: X-Forwarded-For and X-Forwarded-Proto."""

from __future__ import annotations

import contextlib
import ipaddress

from penstock.asgi._types import Scope


class TrustedHosts:
    """The proxies whose fields are trusted.

    Args:
        text: Addresses, networks and other names, separated by commas; "*" trusts every peer. A
            peer on a Unix socket has no address; the word "unix" trusts such peers.

    Raises:
        ValueError: If an entry with a slash is not a network.
    """

    def __init__(self, text: str) -> None:
        self.all: bool = False
        self._names: set[str] = set()
        self._addresses: set[ipaddress.IPv4Address | ipaddress.IPv6Address] = set()
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
                with contextlib.suppress(ValueError):
                    self._addresses.add(ipaddress.ip_address(entry))

    def __contains__(self, host: str) -> bool:
        if self.all or host in self._names:
            return True
        try:
            address = ipaddress.ip_address(host)  # IPv6 has several texts for each
        except ValueError:
            return False
        return address in self._addresses or any(address in each for each in self._networks)

    def client_of(self, forwarded: str) -> str:
        """Return the nearest host that is not trusted, or the farthest one."""
        hosts = [host.strip() for host in forwarded.split(",")]
        if not self.all:
            for entry in reversed(hosts):
                if host_and_port(entry)[0] not in self:
                    return entry
        return hosts[0]


def host_and_port(entry: str) -> tuple[str, int]:
    """Split an entry of X-Forwarded-For; the port is 0 if it is missing or above 65535.

    A malformed entry is returned whole, so that no part of it matches a trusted address.
    """
    host, port = entry, ""
    if entry.startswith("["):
        inner, bracket, rest = entry[1:].partition("]")
        if bracket and rest[:1] in ("", ":"):
            host, port = inner, rest[1:]
    elif entry.count(":") == 1:
        host, _, port = entry.partition(":")
    if port and not (port.isascii() and port.isdigit()):
        return entry, 0
    # int() raises for a text of thousands of digits.
    number = int(port or 0) if len(port) <= 5 else 0
    return host, number if number < 65536 else 0


class ProxyHeaders:
    """Replaces a scope's client and scheme by those that a trusted proxy names.

    The native half calls it only for requests with such a field, before the application or a
    WebSocket session gets the scope. It never raises: an attacker can choose the fields.
    """

    def __init__(self, trusted: TrustedHosts) -> None:
        self._trusted = trusted

    def __call__(self, scope: Scope) -> None:
        """Correct a scope in place, if its peer is trusted."""
        if _peer(scope) not in self._trusted:
            return
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
                scope["scheme"] = text
        if forwarded:
            host, port = host_and_port(self._trusted.client_of(",".join(forwarded)))
            if host:
                scope["client"] = (host, port)


def _peer(scope: Scope) -> str:
    """Return the peer's address, "unix" on a Unix socket, "" if it is not known."""
    client = scope["client"]
    if client:
        return str(client[0])
    # A TCP client that has reset its connection at once has no address either.
    server = scope.get("server")
    return "unix" if server is None or server[1] is None else ""
