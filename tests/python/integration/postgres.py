"""A PostgreSQL server for the tests: in a temporary folder, on a Unix socket and a port."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.python.integration.partition import Network

_USER = "penstock"


@dataclass(frozen=True)
class PostgresServer:
    folder: str
    port: int
    authority: trustme.CA
    control: Callable[..., None]
    host: str

    def stop(self) -> None:
        """End the server at once, as a crash of its machine would."""
        self.control("--mode", "immediate", "stop")

    def start(self) -> None:
        """Start it again; returns when it answers."""
        self.control("start")

    def extensions(self) -> Path:
        """Where the server looks for extensions."""
        shared = subprocess.run(
            [str(_programs() / "pg_config"), "--sharedir"], capture_output=True, text=True
        ).stdout.strip()
        version = _programs().parent.name
        return Path(shared or f"/usr/share/postgresql/{version}") / "extension"

    def dsn(self) -> str:
        """Return libpq's connection string for the Unix socket."""
        return f"host={self.folder} port={self.port} user={_USER} dbname=postgres"

    def uri(self) -> str:
        """Return libpq's URI for the Unix socket."""
        return f"postgresql://{_USER}@/postgres?host={self.folder}&port={self.port}"

    def uri_by_tcp(self) -> str:
        """Return libpq's URI for TCP."""
        return f"postgresql://{_USER}@{self.host}:{self.port}/postgres"

    def by_socket(self) -> dict[str, Any]:
        """Return asyncpg's arguments for the Unix socket."""
        return {"host": self.folder, "port": self.port, "user": _USER, "database": "postgres"}

    def by_tcp(self) -> dict[str, Any]:
        """Return asyncpg's arguments for TCP, where the server also offers TLS."""
        return {**self.by_socket(), "host": "localhost"}


def _programs() -> Path:
    """Return the folder of initdb and pg_ctl, which Debian does not put on the path."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts[-3].zfill(4)
    )
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.skip("no PostgreSQL server on this machine (Debian: apt-get install postgresql)")
    return Path(on_path).resolve().parent


def _unprivileged() -> dict[str, Any]:
    """Return a user for the server, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL refuses to run as root, and there is neither 'postgres' nor 'nobody'")


def _call(*arguments: str, folder: str, **identity: Any) -> None:
    # Output goes to a file: the server outlives pg_ctl and would keep a pipe open.
    with Path(folder, "log").open("ab") as log:
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            timeout=60,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"},
            **identity,
        )
    assert done.returncode == 0, Path(folder, "log").read_text(errors="replace")[-4000:]


@contextmanager
def postgres_server(*, where: Network | None = None) -> Iterator[PostgresServer]:
    """A server, started; in a network of its own if given."""
    programs, identity = _programs(), _unprivileged()
    authority = trustme.CA()
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-") as folder:
        certificate = authority.issue_cert("localhost")
        certificate.private_key_pem.write_to_path(f"{folder}/server.key")
        certificate.cert_chain_pems[0].write_to_path(f"{folder}/server.crt")
        Path(folder, "server.key").chmod(0o600)
        if identity:
            for path in (folder, f"{folder}/server.key", f"{folder}/server.crt"):
                os.chown(path, identity["user"], identity["group"])
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port: int = probe.getsockname()[1]

        def call(program: str, *arguments: str) -> None:
            command = [str(programs / program), *arguments]
            if where is None:
                _call(*command, folder=folder, **identity)
                return
            # Only root enters a network, and PostgreSQL is not for root.
            user, group = identity["user"], identity["group"]
            become = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
            _call(*where.command, *become, *command, folder=folder)

        data = f"{folder}/data"
        call(
            "initdb",
            *("--pgdata", data, "--username", _USER, "--auth", "trust"),
            *("--encoding", "UTF8", "--no-locale", "--no-sync"),
        )
        host = "127.0.0.1"
        if where is not None:
            host = where.address
            with Path(data, "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {host}/30 trust\n")
        settings = {
            "fsync": "off",
            "listen_addresses": host,
            "max_connections": "40",
            "port": str(port),
            "ssl": "on",
            "ssl_cert_file": f"{folder}/server.crt",
            "ssl_key_file": f"{folder}/server.key",
            "unix_socket_directories": folder,
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())

        def control(*arguments: str) -> None:
            call("pg_ctl", "--pgdata", data, "--wait", "--options", options, *arguments)

        server = PostgresServer(folder, port, authority, control, host)
        server.start()
        try:
            yield server
        finally:
            if Path(data, "postmaster.pid").exists():
                server.stop()
