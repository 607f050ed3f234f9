"""Whether the native event loop works."""

from __future__ import annotations

import platform

from penstock.cli._doctor.findings import Finding, Status
from penstock.cli._errors import one_line

__all__ = ["check_loop"]


def check_loop() -> Finding:
    """Load the extension and run a coroutine on its loop."""
    try:
        from penstock import run
    except ImportError as error:
        return Finding(
            "loop",
            Status.BROKEN,
            f"penstock._core cannot be loaded ({one_line(error)}); run `make build` in the source"
            " folder, or install Penstock with pip",
        )

    async def nothing() -> None: ...

    run(nothing())
    where = f"CPython {platform.python_version()}, {platform.system()} {platform.release()}"
    return Finding("loop", Status.FINE, f"native, on {where}")
