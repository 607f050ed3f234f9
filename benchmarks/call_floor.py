"""The echo server of the row ``floor-python``: a C extension that receives, calls, sends.

    python benchmarks/call_floor.py --folder build/bench

The extension (``cpp/python_floor.c``) calls a function of Python for each message. It does nothing
else that is Python's, so that its row shows how much of a server's cost any loop must have.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.echo_server import listen  # noqa: E402
from benchmarks.measure.native import python_floor_in  # noqa: E402
from benchmarks.measured_program import Unavailable, exit_code  # noqa: E402


def echo(data: bytes) -> bytes:
    """Answer a message with itself."""
    return data


def extension(file: Path) -> Any:
    """Load the module of a file.

    Raises:
        Unavailable: it has not been built.
    """
    if not file.exists():
        raise Unavailable(
            f"{file.name} could not be built: it needs a C compiler and the headers of this Python"
        )
    loader = importlib.machinery.ExtensionFileLoader("python_floor", str(file))
    spec = importlib.util.spec_from_loader("python_floor", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def main() -> None:
    """Run the server."""
    parser = argparse.ArgumentParser(description="Echo server without an event loop")
    parser.add_argument("--folder", type=Path, required=True, help="where the extension was built")
    parser.add_argument("--unix", metavar="PATH", help="listen there instead of on a TCP port")
    options = parser.parse_args()
    floor = extension(python_floor_in(options.folder))
    with listen(0 if options.unix is None else options.unix) as listener:
        print(listener.getsockname()[1] if options.unix is None else options.unix, flush=True)
        floor.serve(listener.fileno(), echo)


if __name__ == "__main__":
    sys.exit(exit_code(main))
