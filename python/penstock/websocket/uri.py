"""The addresses of servers and proxies."""

from __future__ import annotations

import base64
import urllib.parse
import urllib.request
from dataclasses import dataclass

from penstock.websocket.exceptions import InvalidProxy, InvalidURI

__all__ = ["Address", "ProxyAddress", "proxy_of_environment"]

PROXY_PORTS = {"http": 80, "https": 443, "socks5h": 1080, "socks5": 1080, "socks4a": 1080}
PROXY_PORTS["socks4"] = 1080


def _reason(error: ValueError, address: str) -> str:
    # The text of urllib quotes what may be a part of a password.
    return "its host or port is invalid" if "@" in address else str(error)


def basic_credentials(parts: urllib.parse.SplitResult) -> str | None:
    """Return the value of a field for Basic authorization, or None."""
    if parts.username is None:
        return None
    user = urllib.parse.unquote(parts.username)
    password = urllib.parse.unquote(parts.password or "")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@dataclass(frozen=True)
class Address:
    """A ws:// or wss:// address.

    Attributes:
        uri: The address as it was given.
        secure: Whether it is wss://.
        host: The host, in ASCII.
        port: The port.
        target: The request target: path and query, quoted.
        authority: The value of the Host field.
        authorization: The value of the Authorization field, or None.
    """

    uri: str
    secure: bool
    host: str
    port: int
    target: str
    authority: str
    authorization: str | None

    @classmethod
    def parse(cls, uri: str) -> Address:
        """Parse an address.

        Raises:
            InvalidURI: If it is not a WebSocket address.
        """
        try:
            parts = urllib.parse.urlsplit(uri)
            port = parts.port
            uri.encode()
        except ValueError as error:
            raise InvalidURI(uri, _reason(error, uri)) from None
        if parts.scheme not in ("ws", "wss"):
            raise InvalidURI(uri, "its scheme must be ws or wss")
        if not parts.hostname:
            raise InvalidURI(uri, "it has no host")
        if parts.fragment:
            raise InvalidURI(uri, "it has a fragment, which is not sent")
        secure = parts.scheme == "wss"
        port = port or (443 if secure else 80)
        host = parts.hostname
        if not host.isascii():
            try:
                host = host.encode("idna").decode()
            except UnicodeError as error:
                raise InvalidURI(uri, f"its host is not a name: {error}") from None
        authority = f"[{host}]" if ":" in host else host
        if port != (443 if secure else 80):
            authority += f":{port}"
        target = parts.path or "/"
        if parts.query:
            target += f"?{parts.query}"
        quoted = urllib.parse.quote(target, safe="/?:@!$&'()*+,;=%-._~")
        return cls(uri, secure, host, port, quoted, authority, basic_credentials(parts))

    @property
    def origin(self) -> tuple[bool, str, int]:
        """What two addresses of one server have in common."""
        return self.secure, self.host, self.port

    @property
    def endpoint(self) -> str:
        """Host and port, as the target of CONNECT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ProxyAddress:
    """The address of a proxy.

    Attributes:
        scheme: One of `PROXY_PORTS`.
        host: Its host.
        port: Its port.
        username: For SOCKS, or None.
        password: For SOCKS, or None.
        authorization: The value of the Proxy-Authorization field, or None.
    """

    scheme: str
    host: str
    port: int
    username: str | None
    password: str | None
    authorization: str | None

    @classmethod
    def parse(cls, proxy: str) -> ProxyAddress:
        """Parse an address.

        Raises:
            InvalidProxy: If it is not a proxy's.
        """
        if not isinstance(proxy, str):
            raise TypeError(f"proxy must be an address, True or None, not {type(proxy).__name__}")
        try:
            parts = urllib.parse.urlsplit(proxy)
            port = parts.port
        except ValueError as error:
            raise InvalidProxy(proxy, _reason(error, proxy)) from None
        if parts.scheme not in PROXY_PORTS:
            schemes = ", ".join(sorted(PROXY_PORTS))
            raise InvalidProxy(proxy, f"its scheme must be one of {schemes}")
        if not parts.hostname:
            raise InvalidProxy(proxy, "it has no host")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise InvalidProxy(
                proxy, "it has a path, a query or a fragment, which a proxy does not use"
            )
        if parts.username is not None and parts.password is None:
            raise InvalidProxy(proxy, "it has a user name without a password")
        return cls(
            parts.scheme,
            parts.hostname,
            port or PROXY_PORTS[parts.scheme],
            None if parts.username is None else urllib.parse.unquote(parts.username),
            None if parts.password is None else urllib.parse.unquote(parts.password),
            basic_credentials(parts),
        )


def proxy_of_environment(address: Address) -> str | None:
    """Return the address of the proxy that the environment names for a server, or None.

    These are the variables and settings that `urllib.request.getproxies` reads. One for ws or wss
    comes first, then one for SOCKS, then those for HTTPS and HTTP (RFC 6455, 4.1).
    """
    if urllib.request.proxy_bypass(f"{address.host}:{address.port}"):
        return None
    found = urllib.request.getproxies()
    order = ("wss", "socks", "https") if address.secure else ("ws", "socks", "https", "http")
    for scheme in order:
        proxy = found.get(scheme)
        if proxy:
            # The settings of a desktop name a SOCKS proxy so.
            if scheme == "socks" and proxy.startswith("http://"):
                proxy = "socks5h" + proxy.removeprefix("http")
            return proxy
    return None
