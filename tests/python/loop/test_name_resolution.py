"""getaddrinfo and getnameinfo."""

from __future__ import annotations

import asyncio
import socket

import pytest

from .conftest import Run


def test_a_number_is_resolved_as_by_the_socket_module(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    for host in ("127.0.0.1", b"127.0.0.1", "::1", None):
        expected = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM)
        assert run(loop.getaddrinfo(host, 80, type=socket.SOCK_STREAM)) == expected


def test_localhost_and_service_names_are_resolved(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    expected = socket.getaddrinfo("localhost", "80", family=socket.AF_INET)
    assert run(loop.getaddrinfo("localhost", "80", family=socket.AF_INET)) == expected


def test_hints_and_flags_are_passed_on(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    arguments = {
        "family": socket.AF_INET,
        "type": socket.SOCK_DGRAM,
        "proto": socket.IPPROTO_UDP,
        "flags": socket.AI_PASSIVE,
    }
    expected = socket.getaddrinfo(None, 53, **arguments)  # type: ignore[arg-type]
    assert run(loop.getaddrinfo(None, 53, **arguments)) == expected


def test_a_name_fails_with_numeric_flags(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    with pytest.raises(socket.gaierror):
        run(loop.getaddrinfo("not-a-number", 80, flags=socket.AI_NUMERICHOST))


def test_getnameinfo_gives_the_result_of_the_socket_module(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    flags = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    assert run(loop.getnameinfo(("127.0.0.1", 80), flags)) == ("127.0.0.1", "80")
