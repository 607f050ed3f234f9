"""The options of a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from penstock.asgi._interfaces import Interface
from penstock.asgi._proxy import TrustedHosts
from penstock.asgi._types import Scope
from penstock.asgi._websocket import WebSocketOptions

Lifespan = Literal["auto", "on", "off"]


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The options of a server. `serve` takes them by name and documents each of them."""

    interface: Literal["auto"] | Interface = "auto"
    wsgi_threads: int = 16
    wsgi_multiprocess: bool = False
    root_path: str = ""
    proxy_headers: bool = False
    forwarded_allow_ips: str = "127.0.0.1,::1"
    lifespan: Lifespan = "auto"
    access_log: bool | Callable[[Scope, int], object] = True
    on_refusal: Callable[[Scope, int], object] | None = None
    server_header: bool = True
    date_header: bool = True
    headers: Sequence[tuple[str, str]] = ()
    limit_concurrency: int | None = None
    limit_head_size: int = 65536
    limit_head_fields: int = 128
    timeout_keep_alive: float = 5
    timeout_head: float | None = 30
    timeout_body: float | None = 60
    timeout_send: float | None = 60
    timeout_graceful_shutdown: float | None = 30
    http2: bool = False
    timeout_http2_stall: float | None = 60
    ws: bool = True
    ws_max_size: int = 16 << 20
    ws_max_queue: int = 32
    ws_ping_interval: float | None = 20
    ws_ping_timeout: float | None = 20
    ws_per_message_deflate: bool = True
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("penstock.asgi"))
    access_logger: logging.Logger = field(
        default_factory=lambda: logging.getLogger("penstock.access")
    )

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: If one is out of its range.
        """
        if self.lifespan not in ("auto", "on", "off"):
            raise ValueError(f"lifespan must be 'auto', 'on' or 'off', not {self.lifespan!r}")
        if self.root_path and not self.root_path.startswith("/"):
            raise ValueError(f"root_path must begin with '/', not {self.root_path!r}")
        if self.limit_concurrency is not None and self.limit_concurrency < 1:
            raise ValueError(f"limit_concurrency must be at least 1, not {self.limit_concurrency}")
        if self.limit_head_size < 256:
            raise ValueError(f"limit_head_size must be at least 256, not {self.limit_head_size}")
        if not 1 <= self.limit_head_fields <= 10_000:
            raise ValueError(
                f"limit_head_fields must be from 1 to 10000, not {self.limit_head_fields}"
            )
        TrustedHosts(self.forwarded_allow_ips)
        for name in ("ws_max_size", "ws_max_queue"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("ws_ping_interval", "ws_ping_timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(
                    f"{name} must be a number of seconds above 0, or None, not {value!r}"
                )
        times = ("keep_alive", "head", "body", "send", "graceful_shutdown", "http2_stall")
        for name in (f"timeout_{each}" for each in times):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be 0 or more seconds, or None, not {value!r}")

    def websocket(self) -> WebSocketOptions | None:
        """Return the options of WebSocket connections; None if there are none."""
        if not self.ws:
            return None
        return WebSocketOptions(
            max_size=self.ws_max_size,
            max_queue=self.ws_max_queue,
            ping_interval=self.ws_ping_interval,
            ping_timeout=self.ws_ping_timeout,
            per_message_deflate=self.ws_per_message_deflate,
        )

    def response_fields(self) -> list[tuple[bytes, bytes]]:
        """Return the fields that every response gets."""
        fields = [
            (name.lower().encode("latin-1"), value.strip().encode("latin-1"))
            for name, value in self.headers
        ]
        if self.server_header and all(name != b"server" for name, _ in fields):
            fields.append((b"server", b"penstock"))
        return fields
