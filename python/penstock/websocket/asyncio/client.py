"""The client, under the path of the module in `websockets`."""

from penstock.websocket.client import ClientConnection, connect, unix_connect

__all__ = ["ClientConnection", "connect", "unix_connect"]
