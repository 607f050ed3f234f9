"""Serial ports over the network with all their settings: RFC 2217.

The client is ``open_serial_port("rfc2217://host:port")``; the server is
:func:`serve_serial_port`, or ``penstock serial serve`` on the command line.
"""

from __future__ import annotations

from penstock._public_names import claim as _claim
from penstock.serial.rfc2217._server import DEFAULT_PORT, Rfc2217Server, serve_serial_port

__all__ = ["DEFAULT_PORT", "Rfc2217Server", "serve_serial_port"]

_claim(globals())
