"""The short text by Robyn, a framework of its own in place of ASGI: ``robyn_hello.py PORT``."""

from __future__ import annotations

import sys

from robyn import Robyn

app = Robyn(__file__)


@app.get("/")  # type: ignore[untyped-decorator,unused-ignore]
async def hello() -> str:
    """The text of the others."""
    return "Hello, world!"


if __name__ == "__main__":
    port = int(sys.argv[1])
    sys.argv[1:] = [
        "--processes",
        "1",
        "--workers",
        "1",
        "--log-level",
        "ERROR",
        "--disable-openapi",
    ]
    app.start(host="127.0.0.1", port=port)
