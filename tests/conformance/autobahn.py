"""Runs the Autobahn test suite against penstock.websocket or the C++ library, as server and client,
or against an ASGI application on penstock.asgi.

usage: python tests/conformance/autobahn.py [--cases 1.* 2.*] [--loop penstock|asyncio] [--write]
       python tests/conformance/autobahn.py --asgi [--no-deflate] [--loop penstock|asyncio]
       python tests/conformance/autobahn.py --program build/optimised/tests/cpp/coro/autobahn_peer

With --asgi the server runs an application that echoes. With --no-deflate it takes no compression,
and the suite finds the cases of compression, 12.* and 13.*, not implemented, as is expected then.

With --program it is run against that program, tests/cpp/coro/ws/autobahn_peer.cpp, and needs no
package.

The suite is a program for CPython 2.7. It is used from build/autobahn, with a CPython 2.7 under
pyenv or on the path:

    python2.7 -m pip install --target build/autobahn autobahntestsuite

Where either is missing, this says so and succeeds. The exit code is 1 if a case failed. --write
puts a table of the results into tests/results/autobahn.md, autobahn_cpp.md for a program, or
autobahn_asgi.md and autobahn_asgi_plain.md.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "build" / "autobahn"
RESULTS = ROOT / "tests" / "results"
RUN = "import sys; sys.argv[0] = 'wstest'\nfrom autobahntestsuite.wstest import run\nrun()"
GOOD = {"OK", "NON-STRICT", "INFORMATIONAL"}
AGENT = "penstock"
# Larger than the largest message of any case.
LIMITS: dict[str, Any] = {"max_size": 1 << 26, "ping_interval": None, "open_timeout": None}


def find_python() -> str | None:
    under_pyenv = sorted(Path.home().glob(".pyenv/versions/2.7*/bin/python"))
    # pyenv's own python2.7 on the path works only if that version is selected.
    return next(map(str, under_pyenv), None) or shutil.which("python2.7")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


async def echo(connection: Any) -> None:
    async for message in connection:
        await connection.send(message)


def start_suite(python: str, mode: str, settings: Path) -> subprocess.Popen[bytes]:
    # pip --target leaves out the file that makes this folder a package.
    (SUITE / "zope" / "__init__.py").touch()
    return subprocess.Popen(
        [python, "-c", RUN, "-m", mode, "-s", str(settings), "--webport", "0"],
        env={**os.environ, "PYTHONPATH": str(SUITE)},
        stdout=subprocess.DEVNULL,
    )


def report_of(folder: Path) -> dict[str, Any]:
    index: dict[str, Any] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    cases: dict[str, Any]
    (cases,) = index.values()
    return cases


def write_settings(folder: Path, end: str, cases: Sequence[str], **more: Any) -> Path:
    settings = folder / f"{end}.json"
    everywhere = {"cases": list(cases), "exclude-cases": [], "exclude-agent-cases": {}}
    settings.write_text(json.dumps({"outdir": str(folder / end), **everywhere, **more}))
    return settings


class PythonSubject:
    """penstock.websocket on a loop."""

    name = "penstock.websocket"
    file = "autobahn.md"

    def __init__(self, loop: str) -> None:
        import penstock

        self.where = f"on {loop}'s loop, "
        self._factory: Callable[[], asyncio.AbstractEventLoop] = (
            penstock.new_event_loop if loop == "penstock" else asyncio.SelectorEventLoop
        )

    def serve(self, use: Callable[[str], None]) -> None:
        """Call ``use`` with the URL of a server that runs meanwhile."""
        from penstock import websocket

        async def main() -> None:
            async with websocket.serve(echo, "127.0.0.1", 0, **LIMITS) as server:
                port = server.sockets[0].getsockname()[1]
                await asyncio.to_thread(use, f"ws://127.0.0.1:{port}")

        with asyncio.Runner(loop_factory=self._factory) as runner:
            runner.run(main())

    def ask(self, url: str) -> None:
        """Run all cases of the suite's server."""
        with asyncio.Runner(loop_factory=self._factory) as runner:
            runner.run(self._ask(url))

    async def _ask(self, url: str) -> None:
        from penstock import websocket

        async with websocket.connect(f"{url}/getCaseCount", **LIMITS) as connection:
            count = int(await connection.recv())
        for case in range(1, count + 1):
            address = f"{url}/runCase?case={case}&agent={AGENT}"
            async with websocket.connect(address, **LIMITS) as connection:
                # Some cases fail the connection, or close it while a message is answered.
                with contextlib.suppress(websocket.ConnectionClosed):
                    await echo(connection)
        async with websocket.connect(f"{url}/updateReports?agent={AGENT}", **LIMITS) as connection:
            await connection.wait_closed()


class AsgiSubject:
    """An application that echoes, on penstock.asgi on a loop."""

    def __init__(self, loop: str, deflate: bool) -> None:
        import penstock

        self.deflate = deflate
        self.name = f"penstock.asgi, {'with' if deflate else 'without'} permessage-deflate"
        self.file = "autobahn_asgi.md" if deflate else "autobahn_asgi_plain.md"
        self.where = f"on {loop}'s loop, "
        self._factory: Callable[[], asyncio.AbstractEventLoop] = (
            penstock.new_event_loop if loop == "penstock" else asyncio.SelectorEventLoop
        )

    def serve(self, use: Callable[[str], None]) -> None:
        """Call ``use`` with the URL of a server that runs meanwhile."""
        from penstock import asgi

        async def main() -> None:
            async with asgi.serve(
                self._echo,
                port=0,
                lifespan="off",
                ws_max_size=LIMITS["max_size"],
                ws_ping_interval=None,
                ws_per_message_deflate=self.deflate,
            ) as server:
                await asyncio.to_thread(use, f"ws://127.0.0.1:{server.port}")

        with asyncio.Runner(loop_factory=self._factory) as runner:
            runner.run(main())

    def ask(self, url: str) -> None:
        raise SystemExit("penstock.asgi is a server: --ends server")

    @staticmethod
    async def _echo(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            kind = "bytes" if message.get("text") is None else "text"
            await send({"type": "websocket.send", kind: message[kind]})


class ProgramSubject:
    """The C++ library, in a program."""

    name = "the C++ library"
    file = "autobahn_cpp.md"
    where = ""

    def __init__(self, program: str) -> None:
        self._program = program

    def serve(self, use: Callable[[str], None]) -> None:
        """Call ``use`` with the URL of a server that runs meanwhile."""
        with subprocess.Popen(
            [self._program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                use(process.stdout.readline().strip())
            finally:
                process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"{self._program} serve has ended with {process.returncode}")

    def ask(self, url: str) -> None:
        """Run all cases of the suite's server."""
        subprocess.run([self._program, "ask", url], check=True)


Subject = PythonSubject | AsgiSubject | ProgramSubject


def test_server(python: str, cases: Sequence[str], folder: Path, subject: Subject) -> None:
    """The suite's client against the subject's server."""

    def use(url: str) -> None:
        servers = [{"agent": AGENT, "url": url}]
        settings = write_settings(folder, "server", cases, servers=servers)
        start_suite(python, "fuzzingclient", settings).wait()

    subject.serve(use)


def test_client(python: str, cases: Sequence[str], folder: Path, subject: Subject) -> None:
    """The subject's client against the suite's server."""
    port = free_port()
    url = f"ws://127.0.0.1:{port}"
    suite = start_suite(python, "fuzzingserver", write_settings(folder, "client", cases, url=url))
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > deadline or suite.poll() is not None:
                    raise
                time.sleep(0.2)
        subject.ask(url)
    finally:
        suite.kill()
        suite.wait()


def is_expected(name: str, case: dict[str, str], subject: Subject) -> bool:
    if isinstance(subject, AsgiSubject) and not subject.deflate and name.startswith(("12.", "13.")):
        return verdict(case) == "UNIMPLEMENTED"
    return verdict(case) in GOOD


def verdict(case: dict[str, str]) -> str:
    worst = {case["behavior"], case["behaviorClose"]} - GOOD
    return min(worst) if worst else case["behavior"]


def table_of(results: dict[str, dict[str, Any]], subject: Subject) -> str:
    commit = subprocess.run(
        ["git", "describe", "--always"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    day = time.strftime("%Y-%m-%d", time.gmtime())
    lines = [
        f"# Autobahn test suite: {subject.name}",
        "",
        f"Run on {day} at {commit}, {subject.where}by `tests/conformance/autobahn.py --write`. "
        "NON-STRICT: what the",
        "standard also allows. INFORMATIONAL: a case that has no wrong behaviour.",
        "",
        "| end | cases | run | OK | NON-STRICT | INFORMATIONAL | other |",
        "|---|---|---|---|---|---|---|",
    ]
    for end, cases in results.items():
        groups: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for name, case in cases.items():
            groups[int(name.split(".")[0])][verdict(case)] += 1
        for group, counted in sorted(groups.items()):
            other = ", ".join(f"{n} {name}" for name, n in counted.items() if name not in GOOD)
            lines.append(
                f"| {end} | {group}.* | {counted.total()} | {counted['OK']} | "
                f"{counted['NON-STRICT']} | {counted['INFORMATIONAL']} | {other or 0} |"
            )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=["*"], help="patterns of cases (all)")
    parser.add_argument(
        "--ends", nargs="+", choices=["server", "client"], default=["server", "client"]
    )
    parser.add_argument("--loop", choices=["penstock", "asyncio"], default="penstock")
    parser.add_argument("--asgi", action="store_true", help="an application on penstock.asgi")
    parser.add_argument("--no-deflate", action="store_true", help="of --asgi: without compression")
    parser.add_argument("--program", help="the C++ program instead of penstock.websocket")
    parser.add_argument("--write", action="store_true", help="write a table of the results")
    options = parser.parse_args(arguments)
    python = find_python()
    if python is None or not (SUITE / "autobahntestsuite").exists():
        missing = "CPython 2.7" if python is None else "build/autobahn"
        print(f"Autobahn: skipped, {missing} is missing; {Path(__file__).name} says how to get it")
        return 0
    if options.program is not None and not Path(options.program).exists():
        print(f"Autobahn: skipped, {options.program} is missing; the preset optimised builds it")
        return 0
    subject: Subject
    if options.program:
        subject = ProgramSubject(options.program)
    elif options.asgi:
        subject = AsgiSubject(options.loop, not options.no_deflate)
        options.ends = ["server"]
    else:
        subject = PythonSubject(options.loop)
    tests = {"server": test_server, "client": test_client}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for end in options.ends:
            tests[end](python, options.cases, Path(folder), subject)
            results[end] = report_of(Path(folder, end))
    bad = [
        f"{end} {name}: {case['behavior']}, close {case['behaviorClose']}"
        for end, cases in results.items()
        for name, case in cases.items()
        if not is_expected(name, case, subject)
    ]
    for end, cases in results.items():
        counted = collections.Counter(verdict(case) for case in cases.values())
        print(f"Autobahn {end}: {len(cases)} cases: {dict(counted)}")
    print("\n".join(bad))
    if options.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / subject.file).write_text(table_of(results, subject), encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
