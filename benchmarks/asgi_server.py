"""The servers of the asgi page: a short response of an ASGI application by a chosen server.

    python benchmarks/asgi_server.py --server penstock

It listens on a free port of the loopback interface and prints it when it is ready.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.http_server import hello_asgi, run_uvicorn  # noqa: E402
from benchmarks.measured_program import (  # noqa: E402
    exit_code,
    loop_factory,
    serve_until_stdin_ends,
)


def run_penstock(loop: str) -> None:
    """penstock.asgi, as a part of a program."""
    from penstock import asgi

    async def serve() -> None:
        async with asgi.serve(hello_asgi, port=0, lifespan="off", access_log=False) as server:
            await serve_until_stdin_ends(server.port)

    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        runner.run(serve())


SERVERS: dict[str, tuple[Callable[[str], None], str]] = {
    "penstock": (run_penstock, "penstock"),
    "uvicorn on penstock": (run_uvicorn, "penstock"),
    "uvicorn on uvloop": (run_uvicorn, "uvloop"),
    "uvicorn on asyncio": (run_uvicorn, "asyncio"),
}


def main() -> None:
    """Run the server."""
    parser = argparse.ArgumentParser(description="ASGI hello by a chosen server")
    parser.add_argument("--server", required=True, choices=SERVERS)
    run, loop = SERVERS[parser.parse_args().server]
    run(loop)


if __name__ == "__main__":
    sys.exit(exit_code(main))
