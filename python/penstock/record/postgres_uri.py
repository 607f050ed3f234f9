"""What is the URI of a PostgreSQL server."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

__all__ = ["check_uri", "is_postgres"]


def is_postgres(target: str) -> bool:
    """True for a URI of libpq."""
    return target.startswith(("postgresql://", "postgres://"))


def check_uri(uri: str) -> None:
    """Refuse a URI of libpq that is malformed, or holds a password. ValueError, without it."""
    try:
        parts = urlsplit(uri)
        wrong = parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:
        raise ValueError(
            "the postgresql:// address is malformed: write postgresql://USER@HOST:PORT/DATABASE"
        ) from None
    if wrong:
        raise ValueError(
            "a URL with postgresql:// holds no password, which every user of the machine could "
            "read: set PGPASSWORD in the environment, or write it into ~/.pgpass"
        )
