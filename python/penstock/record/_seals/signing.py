"""Ed25519 signatures of digests (RFC 8032), by the package ``cryptography``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from penstock.record.errors import RecordError, SinkDependencyError

__all__ = ["PublicKey", "SigningKey"]


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise SinkDependencyError(
            "signatures need the package cryptography: pip install 'penstock[sign]'"
        ) from error
    return serialization


class SigningKey:
    """A private key of Ed25519, of a file that ``openssl genpkey -algorithm ed25519`` has written.

    The file has PEM without a password: a recorder runs unattended. Who has it can sign anything,
    so only the recorder may read it.

    Raises:
        RecordError: the file cannot be read, or has another key.
        SinkDependencyError: without the package cryptography.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        serialization = _serialization()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = _loaded(path, lambda data: serialization.load_pem_private_key(data, None))
        if not isinstance(key, Ed25519PrivateKey):
            raise _no_key(path, "it is no private key of Ed25519")
        self._key = key
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        self.public: bytes = key.public_key().public_bytes(*raw)

    def sign(self, digest: bytes) -> bytes:
        """The signature, 64 bytes. Any thread may call it."""
        return bytes(self._key.sign(digest))


class PublicKey:
    """A public key of Ed25519, of a file that ``openssl pkey -pubout`` has written.

    The private key's file does too. Raises as :class:`SigningKey` does.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        serialization = _serialization()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (
            Ed25519PrivateKey,
            Ed25519PublicKey,
        )

        def load(data: bytes) -> Any:
            if b"PRIVATE KEY" in data:
                return serialization.load_pem_private_key(data, None)
            return serialization.load_pem_public_key(data)

        key = _loaded(path, load)
        if isinstance(key, Ed25519PrivateKey):
            key = key.public_key()
        if not isinstance(key, Ed25519PublicKey):
            raise _no_key(path, "it is no key of Ed25519")
        self._key = key

    def has_signed(self, digest: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's of ``digest``."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, digest)
        except InvalidSignature:
            return False
        return True


def _loaded(path: str | os.PathLike[str], load: Any) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load(Path(path).read_bytes())
    except OSError as error:
        raise _no_key(path, error.strerror or str(error)) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        reason = "it has a password" if isinstance(error, TypeError) else "it is no PEM of a key"
        raise _no_key(path, reason) from error


def _no_key(path: str | os.PathLike[str], reason: str) -> RecordError:
    return RecordError(
        f"the key {os.fspath(path)} cannot be used: {reason}; make one with "
        "openssl genpkey -algorithm ed25519 -out KEY"
    )
