"""HTTP Basic authentication of a server's clients (RFC 7617)."""

from __future__ import annotations

import base64
import binascii
import hmac
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from penstock.websocket.datastructures import MultipleValuesError
from penstock.websocket.http11 import Request, Response
from penstock.websocket.server import ServerConnection

__all__ = ["basic_auth"]

_Check = Callable[[str, str], Awaitable[bool] | bool]


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(isinstance(each, str) for each in value)
    )


def _check_among(credentials: Any) -> _Check:
    pairs = [credentials] if _is_pair(credentials) else credentials
    # An error does not repeat what may hold a password.
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise TypeError("credentials must be a pair of user name and password, or a list of pairs")
    pairs = list(pairs)
    if not all(_is_pair(pair) for pair in pairs):
        raise TypeError("credentials must be a pair of user name and password, or a list of pairs")
    passwords = {user: password.encode() for user, password in pairs}

    def check(user: str, password: str) -> bool:
        # An unknown name takes the same time as a wrong password.
        known = passwords.get(user)
        equal = hmac.compare_digest(known if known is not None else b"", password.encode())
        return equal and known is not None

    return check


def _given(request: Request) -> tuple[str, str] | str:
    """Return the user name and password of a request, or what is wrong."""
    try:
        scheme, _, value = request.headers["Authorization"].partition(" ")
    except KeyError:
        return "Missing credentials\n"
    except MultipleValuesError:
        return "Unsupported credentials\n"
    if scheme.lower() != "basic":
        return "Unsupported credentials\n"
    try:
        user, separator, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "Unsupported credentials\n"
    return (user, password) if separator else "Unsupported credentials\n"


def basic_auth(
    realm: str = "",
    credentials: tuple[str, str] | Iterable[tuple[str, str]] | None = None,
    check_credentials: _Check | None = None,
) -> Callable[[ServerConnection, Request], Awaitable[Response | None]]:
    """Return a `process_request` that accepts clients with valid Basic credentials (RFC 7617).

    It sets the connection's `username`. Other clients get the status 401. Give either `credentials`
    or `check_credentials`.

    Args:
        realm: The name of the protected area, which a browser shows: ASCII, without quotes.
        credentials: A pair of user name and password, or several.
        check_credentials: A function or coroutine function that gets user name and password, and
            returns whether they are valid.

    Raises:
        TypeError: If `credentials` is neither a pair nor an iterable of pairs.
        ValueError: If both or none are given, or the realm cannot be sent.
    """
    if (credentials is None) == (check_credentials is None):
        raise ValueError("give either credentials or check_credentials")
    if not realm.isascii() or not realm.isprintable() or '"' in realm or "\\" in realm:
        raise ValueError(f"the realm {realm!r} cannot be sent; use ASCII without quotes")
    check = check_credentials if check_credentials is not None else _check_among(credentials)

    async def process_request(connection: ServerConnection, request: Request) -> Response | None:
        given = _given(request)
        if isinstance(given, tuple):
            right = check(*given)
            if inspect.isawaitable(right):
                right = await right
            if right:
                connection.username = given[0]
                return None
            given = "Invalid credentials\n"
        response = connection.respond(401, given)
        response.headers["WWW-Authenticate"] = f'Basic realm="{realm}", charset="UTF-8"'
        return response

    return process_request
