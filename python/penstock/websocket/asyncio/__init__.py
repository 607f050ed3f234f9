"""The modules of `websockets.asyncio`, under their paths: a program changes the first name."""
