"""Which engine performs the file operations, and why."""

from __future__ import annotations

from penstock.cli._doctor.findings import Finding, Status
from penstock.cli._errors import one_line

__all__ = ["check_files"]


def check_files() -> Finding:
    """Query the file engine of a running Penstock loop, as a program does."""
    try:
        from penstock import run
        from penstock.files._backend import current_backend
    except ImportError as error:
        return Finding(
            "files",
            Status.BROKEN,
            f"penstock._core cannot be loaded ({one_line(error)}); run `make build` in the source"
            " folder, or install Penstock with pip",
        )

    async def ask() -> tuple[str, str]:
        backend = current_backend()
        return backend.name, backend.reason

    try:
        name, reason = run(ask())
    except (OSError, ValueError, RuntimeError) as error:
        return Finding("files", Status.BROKEN, one_line(error))
    return Finding("files", Status.FINE if name == "uring" else Status.LESS, reason)
