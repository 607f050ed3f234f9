"""Source of objects that call the loop again in the middle of a native function."""

EXPORTER = """
import socket, sys

class Exporter:
    on_export = on_release = staticmethod(lambda: None)

    def __init__(self, size):
        self.data = bytearray(size)
        self.released = 0

    def __buffer__(self, flags):
        self.on_export()
        return memoryview(self.data)

    def __release_buffer__(self, view):
        self.released += 1
        if self.released < 5:
            self.on_release()

loop = new_loop()
left, right = socket.socketpair()
left.setblocking(False)
right.setblocking(False)
"""
"""A class that exports a buffer and calls functions when native code exports or releases it."""

LOSES_ITS_CONNECTION = """
def lose(transport):
    transport.abort()
    while transport.get_protocol() is not None and not lost:
        loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))

lost = []
Protocol = type("Protocol", (asyncio.Protocol, asyncio.DatagramProtocol), {
    "connection_lost": lambda self, exc: lost.append(exc),
    "error_received": lambda self, exc: print(exc),
})

class Data(bytes):
    def __buffer__(self, flags):
        lose(transport)
        return memoryview(bytes(100))
"""
"""A function that ends the connection of a transport, and bytes that call it when exported."""
