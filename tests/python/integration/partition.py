"""A network of its own for a server, with a cable that a test pulls out and puts in."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

__all__ = ["Network", "may_have_networks", "network"]


@dataclass(frozen=True, slots=True)
class Network:
    """A network namespace, joined to this one by two virtual interfaces.

    Attributes:
        name: of the namespace.
        address: of whoever listens in it.
    """

    name: str
    address: str

    @property
    def command(self) -> list[str]:
        """What runs a program in it, put before its own command."""
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        """Let nothing through, in either direction; nobody is told."""
        _ip("-n", self.name, "link", "set", f"{self.name}b", "down")

    def mend(self) -> None:
        """Let everything through again."""
        _ip("-n", self.name, "link", "set", f"{self.name}b", "up")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def may_have_networks() -> str:
    """Why there can be no network here; empty if there can."""
    if shutil.which("ip") is None:
        return "no ip on this machine (Debian: apt-get install iproute2)"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    name = f"pt{secrets.token_hex(3)}"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except OSError as error:
        return f"network namespaces are not permitted here ({error})"
    return ""


@contextmanager
def network() -> Iterator[Network]:
    """A network; skips the test where there can be none."""
    if reason := may_have_networks():
        pytest.skip(reason)
    name = f"pn{secrets.token_hex(3)}"
    # Addresses for tests of networks (RFC 2544), four for each.
    number = secrets.randbelow(1 << 15)
    place = f"198.{18 + (number >> 14)}.{(number >> 6) & 255}"
    first = (number & 63) * 4
    here, there = f"{place}.{first + 1}/30", f"{place}.{first + 2}/30"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b", "netns", name)
        _ip("address", "add", here, "dev", f"{name}a")
        _ip("link", "set", f"{name}a", "up")
        _ip("-n", name, "address", "add", there, "dev", f"{name}b")
        _ip("-n", name, "link", "set", f"{name}b", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        yield Network(name, there.partition("/")[0])
    finally:
        _ip("netns", "del", name)  # with its interface goes the other one
