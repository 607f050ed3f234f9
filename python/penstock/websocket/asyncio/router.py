"""The router, under the path of the module in `websockets`."""

from penstock.websocket.router import Router, route, unix_route

__all__ = ["Router", "route", "unix_route"]
