"""Tests of other projects, run on Penstock: CPython's of asyncio, pyserial's, aiofiles'."""
