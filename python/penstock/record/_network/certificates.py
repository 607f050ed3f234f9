"""Whom a sink trusts, and what is said of a server that cannot be trusted."""

from __future__ import annotations

import os
import ssl

__all__ = ["describe_distrust", "trusting"]


def trusting(ca_file: str | os.PathLike[str] | None) -> ssl.SSLContext:
    """TLS that checks the server's name, and its certificate against the system's or ``ca_file``.

    Raises:
        ValueError: there are no certificates in the file.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(
            f"the certificates in {os.fspath(ca_file or '')} cannot be read: {reason}; name a file "
            "with certificates as PEM"
        ) from error


def describe_distrust(error: ssl.SSLCertVerificationError) -> str:
    """Why a server is not trusted, and what to do."""
    reason = " ".join(str(getattr(error, "verify_message", "") or error).split())
    return (
        f"the server's certificate is not trusted ({reason}): name the certificates of its "
        "authority with ca_file, or write the name of the host that is in the certificate"
    )
