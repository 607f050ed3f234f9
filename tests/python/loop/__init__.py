"""Behaviour of the event loop, tested beside asyncio's own as the reference."""
