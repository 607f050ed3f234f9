"""The blocking client and server, with the interface of `websockets.sync`.

They run on one event loop of their own, in a thread of its own.
"""
