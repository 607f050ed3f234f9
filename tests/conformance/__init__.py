"""CPython's own tests of asyncio, run on Penstock's loop."""
