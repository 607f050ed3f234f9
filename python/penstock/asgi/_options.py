"""The options of a server."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Lifespan", "ServerOptions"]

Lifespan = Literal["auto", "on", "off"]


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """What `serve` takes beside the application and its address; see there."""

    root_path: str = ""
    lifespan: Lifespan = "auto"
    access_log: bool = True
    server_header: bool = True
    date_header: bool = True
    headers: Sequence[tuple[str, str]] = ()
    limit_concurrency: int | None = None
    limit_head_size: int = 65536
    limit_head_fields: int = 128
    timeout_keep_alive: float = 5
    timeout_head: float | None = 30
    timeout_graceful_shutdown: float | None = 30
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
            raise ValueError(f"lifespan is 'auto', 'on' or 'off', not {self.lifespan!r}")
        if self.root_path and not self.root_path.startswith("/"):
            raise ValueError(f"root_path begins with '/', unlike {self.root_path!r}")
        if self.limit_concurrency is not None and self.limit_concurrency < 1:
            raise ValueError(f"limit_concurrency is at least 1, not {self.limit_concurrency}")
        if self.limit_head_size < 256:
            raise ValueError(f"limit_head_size is at least 256, not {self.limit_head_size}")
        if not 1 <= self.limit_head_fields <= 10_000:
            raise ValueError(f"limit_head_fields is 1 to 10000, not {self.limit_head_fields}")
        for name in ("timeout_keep_alive", "timeout_head", "timeout_graceful_shutdown"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is a number of seconds, not {value!r}")

    def response_fields(self) -> list[tuple[bytes, bytes]]:
        """Return the fields that every response gets."""
        fields = [
            (name.lower().encode("latin-1"), value.strip().encode("latin-1"))
            for name, value in self.headers
        ]
        if self.server_header and all(name != b"server" for name, _ in fields):
            fields.append((b"server", b"penstock"))
        return fields
