"""Behaviour of the event loop, with asyncio's own loop as the reference."""
