"""The peer of interoperation_test.cpp: the library `websockets`.

usage: peer.py serve         prints its port; echoes, and closes with 4001 after the text "close"
       peer.py ask PORT      asks an echo server, closes with 4002, and prints "ok"
"""

from __future__ import annotations

import asyncio
import sys

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosedError
from websockets.typing import Subprotocol

CHAT = Subprotocol("chat")


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        if message == "close":
            await connection.ping()
            await connection.close(4001, "asked")
        elif isinstance(message, str):  # in fragments
            await connection.send([message[:3], message[3:]])
        else:
            await connection.send(message)


async def serve_echo() -> None:
    async with serve(echo, "127.0.0.1", 0, subprotocols=[CHAT]) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await server.serve_forever()


async def ask(port: str) -> None:
    uri = f"ws://127.0.0.1:{port}/path"
    async with connect(uri, subprotocols=[CHAT]) as connection:
        assert connection.subprotocol == CHAT
        for size in (0, 1, 125, 126, 65535, 65536, 1 << 20):
            for message in ("\N{EURO SIGN}" * (size // 3), b"\xff" * size):
                await connection.send(message)
                assert await connection.recv() == message
        await connection.send(["in ", "three ", "parts"])
        assert await connection.recv() == "in three parts"
        await (await connection.ping())
        await connection.close(4002, "done")
        assert connection.close_code == 4002
    async with connect(uri) as connection:
        try:
            await connection.send(bytes((1 << 20) + 1))
            await connection.recv()
        except ConnectionClosedError as error:
            assert error.rcvd is not None
            assert error.rcvd.code == 1009
        else:
            raise AssertionError("the large message was accepted")
    print("ok", flush=True)


asyncio.run(serve_echo() if sys.argv[1] == "serve" else ask(sys.argv[2]))
