"""The extension `tls` of a scope: what is known of an encrypted connection."""

from __future__ import annotations

import ssl
from typing import Any

_VERSIONS = {"TLSv1": 0x0301, "TLSv1.1": 0x0302, "TLSv1.2": 0x0303, "TLSv1.3": 0x0304}
_SHORT_NAMES = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL = frozenset('"+,;<>\\')
_suites: dict[str, int] = {}
"""The numbers of cipher suites by OpenSSL's names, which are the same for all contexts."""


def tls_extension(connection: Any) -> dict[str, Any]:
    """Return the extension's value for an `ssl.SSLObject` or one with its methods."""
    certificate = connection.getpeercert(True)
    return {
        "server_cert": None,
        "client_cert_chain": [ssl.DER_cert_to_PEM_cert(each) for each in _chain(connection)],
        "client_cert_name": None if certificate is None else _name(connection.getpeercert()),
        "client_cert_error": None,
        "tls_version": _VERSIONS.get(connection.version()),
        "cipher_suite": _suite(connection),
    }


def _chain(connection: Any) -> list[bytes]:
    """Return the client's certificate, and behind it those that the client has sent with it.

    CPython before 3.13 does not tell the latter, and a resumed session does not have them.
    """
    certificate = connection.getpeercert(True)
    if certificate is None:
        return []
    sent: list[bytes] = getattr(connection, "get_unverified_chain", list)()
    return sent or [certificate]


def _suite(connection: Any) -> int | None:
    used = connection.cipher()
    if used is None:
        return None
    if used[0] not in _suites:  # to list them takes a good part of a handshake's time
        _suites.update(
            (each["name"], each["id"] & 0xFFFF) for each in connection.context.get_ciphers()
        )
    return _suites.get(used[0])


def _name(certificate: dict[str, Any] | None) -> str:
    """Return the subject as RFC 4514 writes it: the last part first."""
    parts = []
    for group in reversed((certificate or {}).get("subject", ())):
        pairs = (f"{_SHORT_NAMES.get(key, key)}={_escaped(value)}" for key, value in group)
        parts.append("+".join(pairs))
    return ",".join(parts)


def _escaped(value: str) -> str:
    text = "".join("\\" + letter if letter in _SPECIAL else letter for letter in value)
    if text.startswith((" ", "#")):
        text = "\\" + text
    if value.endswith(" ") and len(value) > 1:
        text = text[:-1] + "\\ "
    return text.replace("\0", "\\00")
