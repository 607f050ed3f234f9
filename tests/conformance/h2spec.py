"""Runs h2spec, a suite for servers of HTTP/2, against penstock.asgi and http::Server.

usage: python tests/conformance/h2spec.py [--program PATH] [--cpp EXAMPLE] [--write]

EXAMPLE is the built examples/cpp/http_server.cpp. Without it, http::Server is left out.

It is a program in Go, which the gate does not fetch:

    go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible

Where it is missing, this says so and succeeds. The exit code is 1 if a case failed that is not
expected to. --write puts the result into tests/results/h2spec.md.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import shutil
import ssl
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "tests" / "results" / "h2spec.md"
EXPECTED = {
    "Sends invalid connection preface": "a client may also speak HTTP/1.1 on the port, and gets a "
    "response of that",
    "Sends stream identifier that is numerically smaller than previous": "nghttp2 ignores it: "
    "it does not remember all streams that have ended, and such a frame may be late",
}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer when the request has ended."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def ask(program: str, port: int, report: str, *more: str) -> None:
    """Run all cases, those of the strict mode too."""
    arguments = ["--host", "127.0.0.1", "--timeout", "2", "--junit-report", report, *more]
    process = await asyncio.create_subprocess_exec(
        program, "--port", str(port), *arguments, stdout=asyncio.subprocess.DEVNULL
    )
    await process.wait()


async def run(program: str, report: str, tls: ssl.SSLContext | None) -> None:
    """Ask penstock.asgi."""
    from penstock import asgi

    options: dict[str, Any] = {"http2": True, "lifespan": "off", "access_log": False, "ssl": tls}
    async with asgi.serve(app, port=0, **options) as server:
        await ask(program, server.port, report, *(["--tls", "--insecure"] if tls else []))


async def run_cpp(program: str, report: str, example: str) -> None:
    """Ask http::Server."""
    server = await asyncio.create_subprocess_exec(example, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    try:
        line = (await server.stdout.readline()).decode()
        await ask(program, int(line.rsplit(":", 1)[1]), report, "--path", "/hello/world")
    finally:
        server.terminate()
        await server.wait()


def outcome(report: str) -> tuple[int, list[tuple[str, str]]]:
    """Return the number of cases, and those that failed: their sections and descriptions."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    failed = [
        (case.get("package", ""), case.get("classname", ""))
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return len(cases), failed


def context() -> ssl.SSLContext:
    """Return the context of a server, whose certificate nobody checks."""
    import trustme

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(made)
    return made


def main() -> int:
    """Run the suite."""
    parser = argparse.ArgumentParser(description="h2spec against penstock.asgi and http::Server")
    parser.add_argument("--cpp", help="the built examples/cpp/http_server.cpp")
    parser.add_argument("--program", default=shutil.which("h2spec"), help="default: on the path")
    parser.add_argument("--write", action="store_true", help="write tests/results/h2spec.md")
    options = parser.parse_args()
    if options.program is None:
        print("h2spec is not on the path; the head of this file tells how it is installed")
        return 0
    import penstock

    lines, unexpected = [], 0
    servers: list[tuple[str, Callable[[str], Coroutine[Any, Any, None]]]] = [
        ("penstock.asgi without TLS", lambda report: run(options.program, report, None)),
        ("penstock.asgi, TLS", lambda report: run(options.program, report, context())),
    ]
    if options.cpp is not None:
        servers.append(
            ("http::Server", lambda report: run_cpp(options.program, report, options.cpp))
        )
    for name, asked in servers:
        with tempfile.NamedTemporaryFile(suffix=".xml") as report:
            penstock.run(asked(report.name))
            count, failed = outcome(report.name)
        lines.append(f"| {name} | {count} | {count - len(failed)} |")
        print(f"{name}: {count - len(failed)} of {count} cases passed")
        for section, case in failed:
            print(f"    {section}: {case}")
            unexpected += case not in EXPECTED
    if options.write:
        RESULT.write_text(
            "# h2spec: penstock.asgi and http::Server\n\n"
            f"Run on {datetime.date.today()} by `tests/conformance/h2spec.py --write`, with h2spec "
            "2.2.1.\n\n| server | cases | passed |\n|---|---|---|\n"
            + "\n".join(lines)
            + "\n\nExpected to fail:\n\n"
            + "\n".join(f"- {case}: {reason}" for case, reason in EXPECTED.items())
            + "\n"
        )
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
