"""``scheme://HOST[:PORT]/NAME`` URLs of brokers."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from penstock.record._network.secrets import split_url

__all__ = ["BrokerAddress"]


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker, and the name below which it is written.

    Attributes:
        scheme: in lower case.
        host: a name or an address.
        port: TCP port.
        name: the path, without the slashes around it.
    """

    scheme: str
    host: str
    port: int
    name: str

    @classmethod
    def parse(cls, url: str, ports: dict[str, int], *, name: str, secrets: str) -> BrokerAddress:
        """Read a URL.

        Args:
            url: what is read.
            ports: the schemes, and the port of each.
            name: for a URL without a path.
            secrets: where user and password belong, for an error.

        Raises:
            ValueError: it is malformed, or holds a password.
        """
        parts = split_url(url, secrets)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
        if scheme not in ports or not host:
            known = " or ".join(f"{each}://HOST" for each in ports)
            raise ValueError(f"the URL with {scheme}:// is no address of a broker: write {known}")
        if parts.query or parts.fragment:
            raise ValueError(
                f"{scheme}://{host} has options behind ? or #, and there are none: {secrets}"
            )
        return cls(scheme, host, port or ports[scheme], unquote(parts.path).strip("/") or name)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/{self.name}"
