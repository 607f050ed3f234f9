"""TLS contexts from a certificate authority made for the test run."""

from __future__ import annotations

import ssl
import threading
from functools import cache

import trustme

# Client and server of a test make their contexts in two threads.
_making = threading.RLock()


@cache
def _authority() -> trustme.CA:
    return trustme.CA()


@cache
def _certificate(name: str) -> trustme.LeafCert:
    return _authority().issue_cert(name)


def server_context(name: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _making:
        _certificate(name).configure_cert(context)
    return context


def client_context() -> ssl.SSLContext:
    """Return a context that trusts the authority and checks the name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with _making:
        _authority().configure_trust(context)
    return context


def demand_client_certificate(context: ssl.SSLContext) -> None:
    _authority().configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED


def present_client_certificate(context: ssl.SSLContext) -> None:
    _certificate("client.test").configure_cert(context)
