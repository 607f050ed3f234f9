"""Runs every test of this folder on Penstock's loop, on asyncio's and, if present, on uvloop's."""

from tests.python.asyncio_loops import run

__all__ = ["run"]
