"""Connections, under the path of the module in `websockets`."""

from penstock.websocket.connection import Connection

__all__ = ["Connection"]
